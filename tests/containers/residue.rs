//! Remains of a run on this machine, which must not exist.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ground::Ground;

/// Timeout for an engine to clean up after a container; only permanent remains reach it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats the check until it finds no remains.
pub fn settle(look: impl Fn() -> Result<Vec<String>>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = look()?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "left behind: {}", left.join("; "));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Lists the remains of an environment: its containers and their processes, mounts and private directories.
pub fn of(ground: &Ground, ids: &[String]) -> Result<Vec<String>> {
    let mut left: Vec<String> = ground.containers()?.into_iter().map(|id| format!("container {id}")).collect();
    let home = ground.home().display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    left.extend(mounts.lines().filter(|line| line.contains(&home)).map(|line| format!("mount {line}")));
    for folder in ["cache/scratch", "cache/mounts"] {
        left.extend(names(&ground.home().join(folder)).into_iter().map(|name| format!("{folder}/{name}")));
    }
    for id in ids {
        left.extend(processes_of(id));
        left.extend(control_groups(id));
        left.extend(files_of(id));
    }
    Ok(left)
}

/// Lists the processes in a container's control group and those that name the container, such as its monitor and shim.
pub fn processes_of(id: &str) -> Vec<String> {
    let of = |pid: &str| {
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(id));
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (group || line.contains(id)).then(|| format!("process {pid}: {line}"))
    };
    let pids = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(|pid| of(&pid)).collect()
}

/// Lists a container's control groups, in either layout of the kernel and below either engine's parent.
fn control_groups(id: &str) -> Vec<String> {
    let root = Path::new("/sys/fs/cgroup");
    let layouts = names(root).into_iter().map(|name| root.join(name)).chain([root.to_owned()]);
    let places = layouts.flat_map(|layout| {
        [format!("docker/{id}"), format!("libpod_parent/libpod-{id}"), format!("machine.slice/libpod-{id}.scope")]
            .map(|place| layout.join(place))
    });
    places.filter(|place| place.exists()).map(|place| format!("control group {}", place.display())).collect()
}

/// Directories of the engines' data about a container: settings, log and exit status.
const KEPT: [&str; 4] = [
    "/var/lib/docker/containers",
    "/var/lib/containers/storage/overlay-containers",
    "/run/containers/storage/overlay-containers",
    "/run/libpod/exits",
];

fn files_of(id: &str) -> Vec<String> {
    let places = KEPT.iter().map(|place| Path::new(place).join(id));
    places.filter(|place| place.exists()).map(|place| format!("files {}", place.display())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
