//! Requests for running containers that codebox has not made: such a container gets nothing that it does not have.

use std::collections::BTreeSet;

use codebox_core::{Attachment, DirGrant, Isolation, ResultKind};

use super::denied::Denied;
use super::request::{Preference, Request};

/// Refuses a request that names something for the container.
pub(super) fn check(request: &Request) -> Result<(), Denied> {
    let refused =
        |what: &str, why: &str, fix: &str| Err(Denied::new(ResultKind::InvalidRequest, "use", what, why, fix));
    let running = "a running container cannot get more than its maker gave it";
    if !request.isolation.acceptable().contains(Isolation::Container) {
        let isolation = request.isolation.to_string();
        return refused("a running container", &format!("the isolation is {isolation}"), "use --isolation container");
    }
    if matches!(request.isolation, Preference::Among(_)) && request.container.is_none() {
        return refused("a dev container", "the isolation is a set", "use --isolation devcontainer");
    }
    let parts = [
        ("--dir", request.dirs.is_empty(), "use the directories that are mounted into it"),
        ("--net", request.net.is_empty(), "use the network of the container"),
        ("--secret", request.secrets.is_empty(), "pass the value with --env, which shows it to the program"),
        ("--cpus", request.cpus.is_none(), "remove it"),
        ("--image", request.image.is_none(), "remove it"),
        ("--warm", request.warm.is_none(), "remove it"),
        ("--with", request.packages.is_empty(), "install packages in the container"),
        ("--requirements", request.requirements.is_empty(), "install packages in the container"),
        ("--build", !request.build, "install packages in the container"),
        ("--tool", request.tools.is_empty(), "remove it"),
        ("--project", request.project.is_none(), "use a directory that is mounted into it"),
        ("--workdir", request.work_dir.is_none(), "change the directory in the program"),
        ("--out", request.out.is_none(), "write to a directory that is mounted into it"),
    ];
    if let Some((option, _, fix)) = parts.into_iter().find(|(_, is_absent, _)| !is_absent) {
        return refused(option, running, fix);
    }
    if !request.files.is_empty() || !request.returns.is_empty() {
        return refused("files of the request", running, "use a directory that is mounted into the container");
    }
    Ok(())
}

/// Returns the directories of this machine that the container has, each once.
pub(super) fn dirs(attachment: &Attachment) -> Vec<DirGrant> {
    let (mut hosts, mut guests) = (BTreeSet::new(), BTreeSet::new());
    let dirs = attachment.container.dirs.iter();
    dirs.filter(|dir| hosts.insert(dir.host.to_string()) && guests.insert(dir.guest.to_string())).cloned().collect()
}
