//! Start of the `codebox` command. Linked into a program without the rest of this crate.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use codebox_core::exit;
use codebox_zygote::{Place, Served};

use crate::app_dirs::AppDirs;
use crate::start_host::{COMPLETE_PROGRAM, is_enabled};

/// Runs the command line of this process in a worker of the host process, or executes the complete program.
pub fn launch() -> ExitCode {
    let args: Vec<OsString> = env::args_os().collect();
    let program = match complete_program() {
        Ok(program) => program,
        Err(error) => return fail(&format!("cannot find the directory of this program: {error}")),
    };
    if args.get(1).is_some_and(|command| command == "run")
        && is_enabled()
        && !args.iter().any(|arg| may_name_descriptor(arg) || needs_tools(arg))
        && let Ok(dirs) = AppDirs::from_env()
    {
        match codebox_zygote::run(&Place::below(&dirs.cache), &program, &args) {
            Served::No => {}
            Served::Exited(status) => return ExitCode::from(status),
            Served::Lost => return fail("the host process ended during the run, and the run with it; run it again"),
        }
    }
    let (name, rest) = args.split_first().map_or((OsStr::new("codebox"), &[][..]), |(name, rest)| (name, rest));
    let error = Command::new(&program).arg0(name).args(rest).exec();
    fail(&format!("cannot start {}: {error}; install codebox again", program.display()))
}

/// Returns true for an argument like `/dev/fd/3`, which shells make of `<(command)`. A worker has only the standard streams of
/// this process.
fn may_name_descriptor(arg: &OsStr) -> bool {
    arg.as_encoded_bytes().windows(3).any(|part| part == b"fd/")
}

/// Returns true for an option like `--mcp`, `--tool` or `--show`. A worker is confined: it cannot start servers, run tools or save images.
fn needs_tools(arg: &OsStr) -> bool {
    [&b"--mcp"[..], b"--tool", b"--show"].into_iter().any(|option| arg.as_encoded_bytes().starts_with(option))
}

fn complete_program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(COMPLETE_PROGRAM))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("codebox: {message}");
    ExitCode::from(exit::FAILURE)
}
