//! Start of the host process, which forks workers.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::app_dirs::AppDirs;

/// Environment variable that disables the host process if its value is `off`.
const VARIABLE: &str = "CODEBOX_HOST";

/// Returns true unless the environment disables the host process.
pub(crate) fn is_enabled() -> bool {
    env::var_os(VARIABLE).is_none_or(|value| value != OsStr::new("off"))
}

/// Name of the complete program, which is installed in the directory of the command `codebox`.
pub(crate) const COMPLETE_PROGRAM: &str = "codebox-full";

/// Name of the program for jobs in WebAssembly, which the command executes for a run that no host process serves.
#[cfg(feature = "cli")]
pub(crate) const RUN_PROGRAM: &str = "codebox-run";

/// Name of the command, which executes the complete program for everything that it does not do itself.
#[cfg(feature = "cli")]
pub(crate) const SMALL_PROGRAM: &str = "codebox";

/// Command of the host process.
pub(crate) const HOST_COMMAND: &str = "serve-runs";

/// Variables by which the directories of codebox are found. A host process gets no others, so that it holds no secrets.
const VARIABLES: [&str; 5] = ["CODEBOX_HOME", "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// Returns the variables that make another process use these directories; `None` if no variables do.
pub(crate) fn environment_for(dirs: &AppDirs) -> Option<Vec<(OsString, OsString)>> {
    if let Some(home) = dirs.data.parent().filter(|home| home.is_absolute() && AppDirs::below(home) == *dirs) {
        return Some(vec![("CODEBOX_HOME".into(), home.into())]);
    }
    if AppDirs::from_env().ok().as_ref() != Some(dirs) {
        return None;
    }
    Some(VARIABLES.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?))).collect())
}

/// Starts the host process of these directories, and returns it. Its standard output ends when it accepts runs or has
/// failed.
///
/// # Errors
/// Returns an error if the program cannot be started, or if no environment selects the directories.
pub(crate) fn start(program: &Path, dirs: &AppDirs) -> io::Result<Child> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, "no environment variable selects its directories");
    let mut command = Command::new(program);
    command.arg(HOST_COMMAND).env_clear().envs(environment_for(dirs).ok_or_else(unknown)?);
    // The directory of a run may be removed while the host process exists.
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Returns the path of the complete program that belongs to the program of this process, or that program if it is complete itself.
#[cfg(feature = "cli")]
pub(crate) fn own_complete_program() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let is_part = own.file_name().is_some_and(|name| name == RUN_PROGRAM || name == SMALL_PROGRAM);
    Ok(if is_part { own.with_file_name(COMPLETE_PROGRAM) } else { own })
}

/// Returns the path of the complete program that belongs to an installed command.
pub(crate) fn complete_program(command: &Path) -> io::Result<PathBuf> {
    Ok(std::fs::canonicalize(command)?.with_file_name(COMPLETE_PROGRAM))
}
