//! The agent as a file of this machine, which engines can mount.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::ContainerError;

/// The program, as it was built with this crate; empty in a build for another system than Linux.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codebox-agent"));

/// Puts the agent below `folder` if it is not there, and tells where.
///
/// The file is named after its content and appears whole under its name. One that is there is compared: whoever can write
/// there could have changed it.
pub(crate) fn put(folder: &Path) -> Result<PathBuf, ContainerError> {
    if AGENT.is_empty() {
        return Err(ContainerError::NoEngine {
            reason: "this build has no agent for Linux containers".to_owned(),
            fix: "use a build for Linux".to_owned(),
        });
    }
    let digest: String = Sha256::digest(AGENT).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!("agent-{digest}"));
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
