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
    if AGENT.is_absent() {
        return Err(ContainerError::NoEngine {
            reason: "this build has no agent for Linux containers".to_owned(),
            fix: "use a build for Linux".to_owned(),
            unresponsive: false,
        });
    }
    let name = format!("agent-{DIGEST}");
    ProgramFile::install(folder, &name, AGENT).map_err(ContainerError::io("install", &folder.join(name)))
}
