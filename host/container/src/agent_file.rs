//! The agent as a program file on this machine that engines can mount.

use std::path::Path;

use codebox_files::{EmbeddedFile, ProgramFile};

use crate::error::ContainerError;

/// The agent program of this build, absent in builds for systems other than Linux.
const AGENT: EmbeddedFile<'_> = EmbeddedFile::new(include_bytes!(concat!(env!("OUT_DIR"), "/codebox-agent.embedded")));

/// Digest that distinguishes builds of the agent in file names. The content is verified separately.
const DIGEST: &str = env!("CODEBOX_AGENT_DIGEST");

/// Installs the agent below `folder` if it is missing or differs, and opens it.
///
/// The folder must belong to this user alone, and the content is verified, because this machine runs the program too.
///
/// # Errors
/// Returns an error if the folder is not private, if the file cannot be written, or if this build has no agent.
pub fn agent_program(folder: &Path) -> Result<ProgramFile, ContainerError> {
    check_presence()?;
    let name = file_name();
    ProgramFile::install(folder, &name, AGENT).map_err(ContainerError::io("install", &folder.join(name)))
}

/// Opens the agent in a directory of an installation, where [`pack_agent`] has written it. Returns `None` if it is missing, or
/// if other users can change it. An engine may not see this directory; it mounts the file of [`agent_program`].
#[must_use]
pub fn installed_agent_program(dir: &Path) -> Option<ProgramFile> {
    check_presence().ok()?;
    ProgramFile::installed(&dir.join(file_name()), AGENT)
}

/// Writes the agent into a directory of an installation.
///
/// # Errors
/// Returns an error if the file cannot be written, or if this build has no agent.
pub fn pack_agent(dir: &Path) -> Result<(), ContainerError> {
    check_presence()?;
    let path = dir.join(file_name());
    ProgramFile::pack(&path, AGENT).map_err(ContainerError::io("write", &path))
}

fn check_presence() -> Result<(), ContainerError> {
    if AGENT.is_absent() {
        return Err(ContainerError::NoEngine {
            reason: "this build has no agent for Linux containers".to_owned(),
            fix: "use a build for Linux".to_owned(),
            unresponsive: false,
        });
    }
    Ok(())
}

fn file_name() -> String {
    format!("agent-{DIGEST}")
}
