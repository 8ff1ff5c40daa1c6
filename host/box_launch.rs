//! Start of a command in a box, without the complete program.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use codebox_cli::{BoxExec, Input};
use codebox_core::{BoxCommand, BoxInfo, ResultKind, RunReport, RunnerError, is_box_name};
use codebox_runner::{BoxControl, BoxIo, BoxLogEntry, BoxStart};
use codebox_sessions::BoxPlace;

use crate::app_dirs::AppDirs;

/// Returns the command of `codebox box exec NAME [--] COMMAND...`, if the command line has no other options than `--full` and
/// `--no-stdin` and is not damaged. The complete program parses all others.
pub(crate) fn box_exec(args: &[OsString]) -> Option<BoxExec> {
    let words = args.get(1..)?;
    let rest = match words {
        [first, second, rest @ ..] if first == "box" && second == "exec" => rest,
        _ => return None,
    };
    let (mut is_whole, mut input) = (false, Input::Stdin);
    let mut rest = rest.iter();
    let name = loop {
        match rest.next()?.to_str()? {
            "--full" => is_whole = true,
            "--no-stdin" => input = Input::Empty,
            name if is_box_name(name) => break name.to_owned(),
            _ => return None,
        }
    };
    let mut command = rest.as_slice();
    match command.first() {
        Some(first) if first == "--" => command = &command[1..],
        // An option of this command, or of the command in the box.
        Some(first) if first.as_bytes().starts_with(b"-") => return None,
        _ => {}
    }
    if command.is_empty() {
        return None;
    }
    let command = BoxCommand::new(command.iter().map(|word| word.as_bytes().to_vec()));
    Some(BoxExec { name, command, has_terminal: false, is_whole, input })
}

/// The boxes, for a program that only runs commands in them.
pub(crate) struct Boxes(BoxPlace);

impl Boxes {
    pub(crate) fn below(dirs: &AppDirs) -> Self {
        Self(BoxPlace::below(&dirs.cache))
    }
}

fn unsupported() -> RunnerError {
    RunnerError::new(ResultKind::InternalError, "this program only runs commands in boxes")
}

impl BoxControl for Boxes {
    fn exec(&self, name: &str, command: BoxCommand, io: BoxIo<'_>) -> Result<RunReport, RunnerError> {
        self.0.exec(name, command, io)
    }

    fn start(&self, _start: &BoxStart) -> Result<BoxInfo, RunnerError> {
        Err(unsupported())
    }

    fn list(&self) -> Result<Vec<BoxInfo>, RunnerError> {
        Err(unsupported())
    }

    fn log(&self, _name: &str) -> Result<Vec<BoxLogEntry>, RunnerError> {
        Err(unsupported())
    }

    fn stop(&self, _name: &str) -> Result<(), RunnerError> {
        Err(unsupported())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(String, Vec<String>, bool)> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let exec = box_exec(&args)?;
        let words = exec.command.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Some((exec.name, words, exec.is_whole))
    }

    #[test]
    fn leaves_other_command_lines_to_the_complete_program() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(parsed("codebox box exec dev -- ls -l"), Some(("dev".into(), words(&["ls", "-l"]), false)));
        assert_eq!(parsed("codebox box exec --full dev ls -l"), Some(("dev".into(), words(&["ls", "-l"]), true)));
        assert_eq!(parsed("codebox box exec dev -- --"), Some(("dev".into(), words(&["--"]), false)));
        for line in [
            "codebox box list",
            "codebox box exec dev",
            "codebox box exec dev --",
            "codebox box exec -t dev -- sh",
            "codebox box exec dev --json ls",
            "codebox box exec ../x -- ls",
            "codebox run box exec dev ls",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
