//! The agent as a file of this machine, which engines can mount.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::ContainerError;

/// The program, as it was built with this crate; empty in a build for another system than Linux.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codebox-agent"));

/// Tells builds of the agent apart, and nothing more: what stands under a name is compared before it is used in a container.
const DIGEST: &str = env!("CODEBOX_AGENT_DIGEST");

fn place(folder: &Path) -> PathBuf {
    folder.join(format!("agent-{DIGEST}"))
}

/// The agent as a program of this machine, put below `folder` if nothing of its name and length is there.
///
/// It is not compared: the folder is trusted with programs, as all that codebox caches.
///
/// # Errors
/// When it cannot be written, or this build has none.
pub fn agent_program(folder: &Path) -> Result<PathBuf, ContainerError> {
    let path = place(folder);
    let there = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == AGENT.len() as u64);
    if there && !AGENT.is_empty() { Ok(path) } else { put(folder) }
}

/// Puts the agent below `folder` if it is not there, and tells where.
///
/// The file appears whole under its name. One that is there is compared: whoever can write
/// there could have changed it.
pub(crate) fn put(folder: &Path) -> Result<PathBuf, ContainerError> {
    if AGENT.is_empty() {
        return Err(ContainerError::NoEngine {
            reason: "this build has no agent for Linux containers".to_owned(),
            fix: "use a build for Linux".to_owned(),
            silent: false,
        });
    }
    let path = place(folder);
    if fs::read(&path).is_ok_and(|found| found == AGENT) {
        return Ok(path);
    }
    codebox_files::private_dir(folder).map_err(ContainerError::io("make", folder))?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".agent-").tempfile_in(folder)?;
        file.write_all(AGENT)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // Every user's jobs start it, and nobody changes it.
            file.as_file().set_permissions(fs::Permissions::from_mode(0o555))?;
        }
        file.into_temp_path().persist(&path)?;
        Ok(())
    };
    write().map_err(ContainerError::io("write", &path))?;
    Ok(path)
}
