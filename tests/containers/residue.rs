//! Remains of a run on this machine, which must not exist.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::test_env::TestEnvironment;

/// Timeout for an engine to clean up after a container; only permanent remains reach it.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Repeats the check until it finds no remains.
pub fn wait_until_empty(list_remains: impl Fn() -> Result<Vec<String>>) -> Result<()> {
    let until = Instant::now() + CLEANUP_TIMEOUT;
    loop {
        let remains = list_remains()?;
        if remains.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "left behind: {}", remains.join("; "));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Lists the remains of an environment: its containers and their processes, mounts and private directories.
pub fn find_remains(test_env: &TestEnvironment, ids: &[String]) -> Result<Vec<String>> {
    let mut remains: Vec<String> = test_env.containers()?.into_iter().map(|id| format!("container {id}")).collect();
    let home = test_env.home().display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    remains.extend(mounts.lines().filter(|line| line.contains(&home)).map(|line| format!("mount {line}")));
    for folder in ["cache/scratch", "cache/mounts"] {
        remains.extend(names(&test_env.home().join(folder)).into_iter().map(|name| format!("{folder}/{name}")));
    }
    for id in ids {
        remains.extend(container_processes(id));
        remains.extend(control_groups(id));
        remains.extend(engine_files(id));
    }
    Ok(remains)
}

/// Lists the processes in a container's control group and those that name the container, such as its monitor and shim.
pub fn container_processes(id: &str) -> Vec<String> {
    let find_remains = |pid: &str| {
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(id));
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (group || line.contains(id)).then(|| format!("process {pid}: {line}"))
    };
    let pids = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(|pid| find_remains(&pid)).collect()
}

/// Lists a container's control groups, in either layout of the kernel and below either engine's parent.
fn control_groups(id: &str) -> Vec<String> {
    let root = Path::new("/sys/fs/cgroup");
    let layouts = names(root).into_iter().map(|name| root.join(name)).chain([root.to_owned()]);
    let dir_paths = layouts.flat_map(|layout| {
        [format!("docker/{id}"), format!("libpod_parent/libpod-{id}"), format!("machine.slice/libpod-{id}.scope")]
            .map(|dir_path| layout.join(dir_path))
    });
    dir_paths
        .filter(|dir_path| dir_path.exists())
        .map(|dir_path| format!("control group {}", dir_path.display()))
        .collect()
}

/// Directories of the engines' data about a container: settings, log and exit status.
const ENGINE_DIRECTORIES: [&str; 4] = [
    "/var/lib/docker/containers",
    "/var/lib/containers/storage/overlay-containers",
    "/run/containers/storage/overlay-containers",
    "/run/libpod/exits",
];

fn engine_files(id: &str) -> Vec<String> {
    let dir_paths = ENGINE_DIRECTORIES.iter().map(|dir_path| Path::new(dir_path).join(id));
    dir_paths.filter(|dir_path| dir_path.exists()).map(|dir_path| format!("files {}", dir_path.display())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
