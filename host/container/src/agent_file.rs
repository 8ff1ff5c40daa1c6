//! The agent as a program file of this machine, which engines can mount.

use std::path::Path;

use codebox_files::ProgramFile;

use crate::error::ContainerError;

/// The program, as it was built with this crate; empty in a build for another system than Linux.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codebox-agent"));

/// Tells builds of the agent apart in file names; the content is verified by itself.
const DIGEST: &str = env!("CODEBOX_AGENT_DIGEST");

/// Installs the agent below `folder` if it is missing or differs, and opens it.
///
/// The folder has to be this user's alone, and the content is verified, for the program is run on this machine too.
///
/// # Errors
/// When the folder is not private, the file cannot be written, or this build has no agent.
pub fn agent_program(folder: &Path) -> Result<ProgramFile, ContainerError> {
    if AGENT.is_empty() {
        return Err(ContainerError::NoEngine {
            reason: "this build has no agent for Linux containers".to_owned(),
            fix: "use a build for Linux".to_owned(),
            silent: false,
        });
    }
    let name = format!("agent-{DIGEST}");
    ProgramFile::install(folder, &name, AGENT).map_err(ContainerError::io("install", &folder.join(name)))
}
