//! Builder for commands of the program under test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child::{self, Input, ProcessResult};

/// Default deadline, far above any limit that a test sets: only a hanging program reaches it.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);

/// Command line of the program under test.
///
/// The environment is empty except for `CODEBOX_HOME`, and standard input is empty. A run that exceeds its deadline is
/// killed and marked as [timed out](ProcessResult::timed_out).
#[derive(Debug, Clone)]
pub struct Codebox {
    binary: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    keep_env: KeepEnv,
    folder: Option<PathBuf>,
    input: Input,
    deadline: Duration,
}

/// Returns the use of a host process: that of `CODEBOX_TEST_HOST`, or none. The tests of the host process enable it themselves.
fn host_process() -> OsString {
    std::env::var_os("CODEBOX_TEST_HOST").unwrap_or_else(|| "off".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepEnv {
    No,
    Yes,
}

impl Codebox {
    /// Creates a command of `binary` with this home.
    #[must_use]
    pub fn new(binary: &Path, home: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            args: Vec::new(),
            env: vec![
                ("CODEBOX_HOME".into(), home.into()),
                ("CODEBOX_HOST".into(), host_process()),
                // Images would appear at some time after a second run of the same imports.
                ("CODEBOX_AUTOMATIC_IMAGES".into(), "off".into()),
            ],
            keep_env: KeepEnv::No,
            folder: None,
            input: Input::Empty,
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Passes this process's environment to the program.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.keep_env = KeepEnv::Yes;
        self
    }

    /// Sets another home.
    #[must_use]
    pub fn home(self, home: &Path) -> Self {
        self.env("CODEBOX_HOME", home)
    }

    /// Grants a directory, in the form `HOST:GUEST:ACCESS`.
    #[must_use]
    pub fn grant(self, host: &Path, guest: &str, access: &str) -> Self {
        let spec = format!("{}:{guest}:{access}", host.display());
        self.args(["--dir".to_owned(), spec])
    }

    /// Starts the program in this directory.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets the program's standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Sets the time after which the program is killed.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Returns the command that [`run`](Self::run) starts.
    #[must_use]
    pub fn command(&self) -> Command {
        #[cfg(unix)]
        crate::dispositions::reset_for_children();
        let mut command = Command::new(&self.binary);
        if self.keep_env == KeepEnv::No {
            command.env_clear();
        }
        command.args(&self.args).envs(self.env.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// Fails if the program cannot be started or watched. A failure of the program itself is part of the result.
    pub fn run(self) -> Result<ProcessResult> {
        child::run(self.command(), self.input, self.deadline)
    }
}
