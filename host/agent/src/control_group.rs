//! Counters of this container's cgroup, in cgroup versions 1 and 2.

use std::fs;

use codebox_agent::Evidence;

/// Reads every counter that the kernel provides.
pub(crate) fn read() -> Evidence {
    Evidence { oom_kills: oom_kills(), peak_memory: peak_memory(), cpu_us: cpu_us(), forks_refused: forks_refused() }
}

/// Returns the counters relative to `before`. The peak memory is that of the container since its start.
pub(crate) fn since(before: &Evidence) -> Evidence {
    let now = read();
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    Evidence {
        oom_kills: less(now.oom_kills, before.oom_kills),
        peak_memory: now.peak_memory,
        cpu_us: less(now.cpu_us, before.cpu_us),
        forks_refused: less(now.forks_refused, before.forks_refused),
    }
}

/// Returns the processor time of all processes in the cgroup, in microseconds.
pub(crate) fn cpu_us() -> Option<u64> {
    field("cpu.stat", "usage_usec").or_else(|| {
        let places = ["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"];
        Some(places.into_iter().find_map(number)? / 1000)
    })
}

fn oom_kills() -> Option<u64> {
    field("memory.events", "oom_kill").or_else(|| field("memory/memory.oom_control", "oom_kill"))
}

fn peak_memory() -> Option<u64> {
    number("memory.peak").or_else(|| number("memory/memory.max_usage_in_bytes"))
}

fn forks_refused() -> Option<u64> {
    field("pids.events", "max").or_else(|| field("pids/pids.events", "max"))
}

fn text(name: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()
}

fn number(name: &str) -> Option<u64> {
    text(name)?.trim().parse().ok()
}

/// Returns the number after `key` in a file of key-value lines.
fn field(name: &str, key: &str) -> Option<u64> {
    text(name)?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
