//! The agent in a container that codebox has not made: a program that the engine has copied into it and started there.
//!
//! The program is in a directory of its own, whose name starts with [`DIR_PREFIX`], and which the agent removes at its end. If the user
//! of the jobs is not root, the agent runs as root, so that a job can neither end nor inspect it, and jobs run as the user.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_agent::identity::{DIR_PREFIX, Identity};
use rustix::fs::{Gid, Uid};
use rustix::process::{getegid, geteuid, getgroups, getpid, set_child_subreaper};
use rustix::thread::{CapabilitySet, capabilities, set_thread_gid, set_thread_groups, set_thread_uid};

/// User and groups of jobs, if they are not those of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobUser {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl JobUser {
    /// Parses `UID:GID:GROUP,GROUP`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let groups = parts.next()?.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().ok());
        let groups = groups.collect::<Option<_>>()?;
        parts.next().is_none().then_some(Self { uid, gid, groups })
    }

    /// Returns the words before a command line that make it run as this user.
    pub(crate) fn prefix(&self) -> Vec<OsString> {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        let words = [self.uid.to_string(), self.gid.to_string(), groups.join(",")];
        let words = ["/proc/self/exe", "become"].into_iter().map(OsString::from).chain(words.map(OsString::from));
        words.collect()
    }
}

/// Prepares this process for its jobs. `text` is the user of the jobs as `UID:GID:GROUP,GROUP`, or `self`.
pub(crate) fn prepare(text: &str) -> io::Result<Option<JobUser>> {
    set_child_subreaper(Some(getpid()))?;
    if text == "self" {
        return Ok(None);
    }
    let user = JobUser::parse(text).ok_or_else(|| io::Error::other(format!("{text:?} is not a user")))?;
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    if !capabilities(None)?.effective.contains(needed) {
        return Err(io::Error::other("root has not the capabilities to change the user"));
    }
    Ok(Some(user))
}

/// Changes the user and the groups, and becomes a program. The words are the user, the group, the groups, the path of the program, its
/// `argv[0]` and its further arguments.
pub(crate) fn become_user(mut words: impl Iterator<Item = OsString>) -> io::Result<()> {
    let invalid = || io::Error::other("become expects a user, a group, groups, a program and its name");
    let mut text = || words.next().and_then(|word| word.into_string().ok()).ok_or_else(invalid);
    let user = JobUser::parse(&format!("{}:{}:{}", text()?, text()?, text()?)).ok_or_else(invalid)?;
    let (program, argv0) = (words.next().ok_or_else(invalid)?, words.next().ok_or_else(invalid)?);
    // This process has one thread.
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    set_thread_gid(Gid::from_raw(user.gid))?;
    set_thread_uid(Uid::from_raw(user.uid))?;
    Err(Command::new(program).arg0(argv0).args(words).exec())
}

/// Prints the user, the groups and the environment of this process, which are those that the engine gives to programs.
pub(crate) fn identify() -> io::Result<()> {
    let identity = Identity {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        groups: getgroups()?.into_iter().map(Gid::as_raw).collect(),
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    };
    println!("{}", serde_json::to_string(&identity)?);
    Ok(())
}

/// Returns the directory of this program, if it was made for it alone.
pub(crate) fn own_dir() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let dir = program.parent()?;
    dir.file_name()?.to_str()?.starts_with(DIR_PREFIX).then(|| dir.to_owned())
}

/// Removes the directory of this program.
pub(crate) fn discard(dir: Option<&Path>) -> io::Result<()> {
    dir.map_or(Ok(()), std::fs::remove_dir_all)
}

/// Returns the name of the abstract socket for queries: each agent of a container has its own.
pub(crate) fn query_socket() -> Vec<u8> {
    let dir = own_dir();
    let name = dir.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.strip_prefix(DIR_PREFIX));
    let own = name.map(|name| [codebox_agent::QUERY_SOCKET, b"-", name.as_bytes()].concat());
    own.unwrap_or_else(|| codebox_agent::QUERY_SOCKET.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_users() {
        let user = |uid, gid, groups: &[u32]| Some(JobUser { uid, gid, groups: groups.to_vec() });
        assert_eq!(JobUser::parse("1000:1000:4,27"), user(1000, 1000, &[4, 27]));
        assert_eq!(JobUser::parse("5:6:"), user(5, 6, &[]));
        for bad in ["", "1", "1:2", "1:2:x", "-1:2:", "1:2:3:4", "root:0:"] {
            assert_eq!(JobUser::parse(bad), None, "{bad}");
        }
    }
}
