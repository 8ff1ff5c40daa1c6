//! Counters of this container's cgroup, in cgroup versions 1 and 2.

use std::fs;

use codebox_agent::CgroupStats;

/// Reads every counter that the kernel provides.
pub(crate) fn read() -> CgroupStats {
    CgroupStats { oom_kills: oom_kills(), peak_memory: peak_memory(), cpu_us: cpu_us(), forks_refused: forks_refused() }
}

/// Returns the counters relative to `before`. The peak memory is that of the container since its start.
pub(crate) fn since(before: &CgroupStats) -> CgroupStats {
    let now = read();
    let delta = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    CgroupStats {
        oom_kills: delta(now.oom_kills, before.oom_kills),
        peak_memory: now.peak_memory,
        cpu_us: delta(now.cpu_us, before.cpu_us),
        forks_refused: delta(now.forks_refused, before.forks_refused),
    }
}

/// Returns the processor time of all processes in the cgroup, in microseconds.
pub(crate) fn cpu_us() -> Option<u64> {
    read_field("cpu.stat", "usage_usec").or_else(|| {
        let paths = ["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"];
        Some(paths.into_iter().find_map(read_number)? / 1000)
    })
}

/// Returns the number of processes that were killed for lack of memory.
pub(crate) fn oom_kills() -> Option<u64> {
    read_field("memory.events", "oom_kill").or_else(|| read_field("memory/memory.oom_control", "oom_kill"))
}

fn peak_memory() -> Option<u64> {
    read_number("memory.peak").or_else(|| read_number("memory/memory.max_usage_in_bytes"))
}

fn forks_refused() -> Option<u64> {
    read_field("pids.events", "max").or_else(|| read_field("pids/pids.events", "max"))
}

fn read_text(name: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()
}

fn read_number(name: &str) -> Option<u64> {
    read_text(name)?.trim().parse().ok()
}

/// Returns the number after `key` in a file of key-value lines.
fn read_field(name: &str, key: &str) -> Option<u64> {
    read_text(name)?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
