//! Start of the `codebox` command. Linked into a program without the rest of this crate.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use codebox_core::exit;
use codebox_zygote::{Place, Served};

use crate::app_dirs::AppDirs;
use crate::start_host::{COMPLETE_PROGRAM, RUN_PROGRAM, is_enabled};

/// Runs the command line of this process in a worker of the host process, or executes the complete program.
pub fn launch() -> ExitCode {
    let args = codebox_cli::with_run(env::args_os().collect());
    let program = match env::current_exe() {
        Ok(program) => program.with_file_name(COMPLETE_PROGRAM),
        Err(error) => return fail(&format!("cannot find the directory of this program: {error}")),
    };
    if let Some(exec) = crate::box_launch::box_exec(&args)
        && let Ok(dirs) = AppDirs::from_env()
    {
        return ExitCode::from(codebox_cli::exec_in_box(&crate::box_launch::Boxes::below(&dirs), exec));
    }
    let is_run = args.get(1).is_some_and(|command| command == "run") && !args.iter().any(|arg| needs_tools(arg));
    if is_run
        && is_enabled()
        && !args.iter().any(|arg| may_name_descriptor(arg))
        && let Ok(dirs) = AppDirs::from_env()
    {
        match codebox_zygote::run(&Place::below(&dirs.cache), &program, &args) {
            Served::No => {}
            Served::Exited(status) => return ExitCode::from(status),
            Served::Lost => return fail("the host process ended during the run, and the run with it; run it again"),
        }
    }
    let (name, rest) = args.split_first().map_or((OsStr::new("codebox"), &[][..]), |(name, rest)| (name, rest));
    // Only the complete program can stand by for another process, which executes it directly.
    let execute =
        |program: &Path| Command::new(program).arg0(name).args(rest).env_remove(codebox_cli::STANDBY_VARIABLE).exec();
    if is_run && !needs_complete_program(rest) {
        // If it is missing, the complete program does the same in more time.
        let _error = execute(&program.with_file_name(RUN_PROGRAM));
    }
    let error = execute(&program);
    fail(&format!("cannot start {}: {error}; install codebox again", program.display()))
}

/// Returns true if options or words of `run` show that the program for jobs in WebAssembly would execute the complete program. It
/// decides that itself as well; this only saves the time of its start.
fn needs_complete_program(args: &[OsString]) -> bool {
    const OPTIONS: [&[u8]; 13] = [
        b"--with",
        b"-r",
        b"--requirements",
        b"--image",
        b"--python",
        b"--node",
        b"--isolation=container",
        b"--isolation=devcontainer",
        b"--container",
        b"--engine",
        b"--warm",
        b"--build",
        b"--watch",
    ];
    let shows = |arg: &OsString| {
        let arg = arg.as_encoded_bytes();
        arg == b"-" || arg == b"--help" || OPTIONS.into_iter().any(|option| arg.starts_with(option))
    };
    let has_container = args
        .windows(2)
        .any(|words| words[0] == "--isolation" && (words[1] == "container" || words[1] == "devcontainer"));
    has_container || args.iter().any(shows)
}

/// Returns true for an argument like `/dev/fd/3`, which shells make of `<(command)`. A worker has only the standard streams of
/// this process.
fn may_name_descriptor(arg: &OsStr) -> bool {
    arg.as_encoded_bytes().windows(3).any(|part| part == b"fd/")
}

/// Returns true for an option like `--mcp`, `--tool` or `--show`. A worker is confined: it cannot start servers, run tools or save images.
fn needs_tools(arg: &OsStr) -> bool {
    [&b"--mcp"[..], b"--tool", b"--show", b"--watch"]
        .into_iter()
        .any(|option| arg.as_encoded_bytes().starts_with(option))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("codebox: {message}");
    ExitCode::from(exit::FAILURE)
}
