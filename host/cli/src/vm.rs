//! The virtual machine of the user, as the command line sees it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_core::{Progress, ResultKind, RunnerError};

/// State of the virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineStatus {
    /// Name of the program that runs virtual machines.
    pub provider: String,
    /// `missing`, `stopped`, `running` or `damaged`.
    pub state: &'static str,
    /// Reason for which the machine cannot run.
    pub reason: Option<String>,
    /// Facts about a machine that runs and answers.
    pub running: Option<RunningMachine>,
}

/// Facts about a virtual machine that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningMachine {
    /// Time since its start.
    pub uptime: Duration,
    /// Memory in bytes, and that which is available.
    pub memory: [u64; 2],
    /// Size of the disk in bytes, and that which is available.
    pub disk: [u64; 2],
    /// Number of uses by processes of codebox.
    pub uses: usize,
    /// Directories of this machine that it sees.
    pub shared: Vec<PathBuf>,
}

/// Control of the virtual machine.
pub trait MachineControl {
    /// Makes and starts the machine unless it runs. Returns the socket of Podman.
    ///
    /// # Errors
    /// Returns an error that names the part that failed.
    fn up(&self, progress: &dyn Progress) -> Result<PathBuf, RunnerError>;

    /// Installs an image of machines from a file, in place of an earlier one. Returns its directory. A machine that exists is kept.
    ///
    /// # Errors
    /// Returns an error if the file is not an image of this version or is damaged, or if the image cannot be written.
    fn install(&self, file: &Path) -> Result<PathBuf, RunnerError>;

    /// Turns the machine off. Returns false if it does not run.
    ///
    /// # Errors
    /// Returns an error if the machine cannot be ended.
    fn down(&self) -> Result<bool, RunnerError>;

    /// Returns the state of the machine, starting nothing.
    ///
    /// # Errors
    /// Returns an error if the provider does not answer.
    fn status(&self) -> Result<MachineStatus, RunnerError>;

    /// Runs a command in the machine, which is started first, as the user of Podman or as root, with the streams of this process.
    /// `has_started` is called when the command has started. Returns its exit status, or 128 and the number of a signal.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    fn run(
        &self,
        words: Vec<String>,
        is_root: bool,
        has_started: &mut (dyn FnMut() + Send),
        progress: &dyn Progress,
    ) -> Result<i32, RunnerError>;

    /// Removes the machine with its disk. Returns false if there is none.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    fn reset(&self) -> Result<bool, RunnerError>;

    /// Returns the messages of the machine since its last start.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be read.
    fn log(&self) -> Result<String, RunnerError>;
}

/// The control on systems without virtual machines of codebox.
#[derive(Debug, Clone, Copy)]
pub struct NoMachine;

impl NoMachine {
    fn unsupported<T>() -> Result<T, RunnerError> {
        let line = "virtual machines need Linux";
        Err(RunnerError::new(ResultKind::EngineUnavailable, line).with_fix("install Podman or Docker"))
    }
}

impl MachineControl for NoMachine {
    fn up(&self, _progress: &dyn Progress) -> Result<PathBuf, RunnerError> {
        Self::unsupported()
    }

    fn install(&self, _file: &Path) -> Result<PathBuf, RunnerError> {
        Self::unsupported()
    }

    fn down(&self) -> Result<bool, RunnerError> {
        Self::unsupported()
    }

    fn status(&self) -> Result<MachineStatus, RunnerError> {
        Self::unsupported()
    }

    fn run(&self, _: Vec<String>, _: bool, _: &mut (dyn FnMut() + Send), _: &dyn Progress) -> Result<i32, RunnerError> {
        Self::unsupported()
    }

    fn reset(&self) -> Result<bool, RunnerError> {
        Self::unsupported()
    }

    fn log(&self) -> Result<String, RunnerError> {
        Self::unsupported()
    }
}
