//! Resources of the user of Podman: a group of cgroup v2, and the directory of sockets.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use codebox_vm_guest::{JOBS_GROUP, USER};

/// File system of groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Group of the processes of the user.
const USER_GROUP: &str = "/sys/fs/cgroup/codebox";

/// Group of Podman itself: a group with controllers for its children has no processes.
const SERVICE_GROUP: &str = "/sys/fs/cgroup/codebox/service";

/// Delegates a group with all controllers to the user, and joins that of Podman.
pub(crate) fn delegate() -> io::Result<()> {
    let available = fs::read_to_string(format!("{GROUPS}/cgroup.controllers"))?;
    let controllers: Vec<String> = ["cpu", "cpuset", "io", "memory", "pids"]
        .into_iter()
        .filter(|name| available.split_whitespace().any(|one| one == *name))
        .map(|name| format!("+{name}"))
        .collect();
    let controllers = controllers.join(" ");
    let divide = |group: &str| fs::write(format!("{group}/cgroup.subtree_control"), &controllers);
    let jobs = format!("{GROUPS}{JOBS_GROUP}");
    divide(GROUPS)?;
    for group in [USER_GROUP, &jobs] {
        fs::create_dir_all(group)?;
        divide(group)?;
    }
    fs::create_dir_all(SERVICE_GROUP)?;
    for group in [USER_GROUP, SERVICE_GROUP, &jobs] {
        chown(group, Some(USER), Some(USER))?;
        for file in ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(format!("{group}/{file}"), Some(USER), Some(USER))?;
        }
    }
    Ok(())
}

/// Moves this process to the group of Podman, which inherits it.
pub(crate) fn join() -> io::Result<()> {
    fs::write(Path::new(SERVICE_GROUP).join("cgroup.procs"), std::process::id().to_string())
}

/// Makes the directory for the sockets of the user, and opens the devices that Podman needs to it.
pub(crate) fn user_dirs() -> io::Result<()> {
    for device in ["/dev/fuse", "/dev/net/tun"] {
        let _ = fs::set_permissions(device, fs::Permissions::from_mode(0o666));
    }
    let dir = format!("/run/user/{USER}");
    fs::create_dir_all(&dir)?;
    chown(&dir, Some(USER), Some(USER))
}
