//! A worker of a library: runs one job, which another process passes to it over its standard input.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use codebox_core::{Adapter, Backend, InstanceSpec, Job, RunnerError, SandboxLayer, exit};
use codebox_worker::Work;

use crate::app_dirs::{AppDirs, AppDirsError};
use crate::confinement;
use crate::machine::{Machine, Use};
use crate::processes::executor;
use crate::workers::WORKER_COMMAND;

/// Returns the directories of a worker that runs a job of a library; `None` for other command lines.
pub(crate) fn requested_dirs(args: &[OsString]) -> Option<AppDirs> {
    match args {
        [_, command, data, cache, config] if command == WORKER_COMMAND => {
            let [data, cache, config] = [data, cache, config].map(PathBuf::from);
            Some(AppDirs { data, cache, config })
        }
        _ => None,
    }
}

/// Runs a job in this process, which was started for it.
pub(crate) fn start(args: &[OsString]) -> u8 {
    let dirs = requested_dirs(args);
    run(&Machine::new(Use::CommandLine, move || dirs.clone().ok_or(AppDirsError)))
}

/// Runs a job with these parts, and returns the exit status. The process that requests the job is told of errors.
pub(crate) fn run(machine: &Arc<Machine>) -> u8 {
    match serve(machine) {
        Ok(()) => 0,
        // The other process is gone.
        Err(_) => exit::FAILURE,
    }
}

fn serve(machine: &Arc<Machine>) -> io::Result<()> {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let executor = executor().map_err(io::Error::other)?;
    executor.block_on(codebox_worker::serve(channel, &Parts(machine)))
}

/// The parts of this process.
struct Parts<'m>(&'m Arc<Machine>);

impl Work for Parts<'_> {
    fn backend(&self, spec: &InstanceSpec) -> Result<Arc<dyn Backend>, RunnerError> {
        if spec.language.adapter() == Some(Adapter::Node) {
            // It removes the types of modules while the program runs, when this process can start no other.
            self.0.analyzer()?.prestart();
        }
        Ok(Arc::clone(self.0.wasm()?) as _)
    }

    fn confine(&self, spec: &InstanceSpec, job: &Job) -> Result<Vec<SandboxLayer>, RunnerError> {
        confinement::confine_to(self.0, spec, job.out.as_ref())
    }

    fn clean(&self) {
        self.0.remove_scratch();
    }
}
