//! A worker of a library: runs one job, which another process passes to it over its standard input.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use codebox_core::{Adapter, Backend, InstanceSpec, Job, Limits, ResultKind, RunnerError, SandboxLayer, exit};
use codebox_worker::Work;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::app_dirs::{AppDirs, AppDirsError};
use crate::confinement;
use crate::host_process::close_inherited_descriptors;
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
    // The program that embeds codebox may have descriptors that are inherited, and the job has no right to them.
    close_inherited_descriptors();
    let dirs = requested_dirs(args);
    run(&Machine::new(Use::CommandLine, move || dirs.clone().ok_or(AppDirsError)))
}

/// Runs a job with these parts, and returns the exit status. Errors are reported to the process that requests the job.
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

/// Processor time that a worker may take beyond the limits of its job, in seconds.
const EXTRA_SECONDS: u64 = 10;

/// Limits the processor time of this process: a guest that has taken it over may ignore its limits and the end of the program that
/// started it.
fn limit_processor_time(limits: &Limits) -> io::Result<()> {
    // The guest has one thread, and those of codebox together take less time than it.
    let wall = limits.wall.at().map(|wall| wall.as_secs().saturating_mul(2));
    let Some(least) = [wall, limits.cpu.at().map(|cpu| cpu.as_secs())].into_iter().flatten().min() else {
        return Ok(());
    };
    let limit = getrlimit(Resource::Cpu).maximum.unwrap_or(u64::MAX).min(least.saturating_add(EXTRA_SECONDS));
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(limit), maximum: Some(limit) })?)
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
        if spec.session.is_some() {
            self.0.wasm()?.unmap_unused(spec);
            // Its jobs are not known yet.
            return confinement::confine_to(self.0, spec, None);
        }
        limit_processor_time(&job.limits).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        confinement::confine_to(self.0, spec, job.out.as_ref())
    }

    fn clean(&self) {
        self.0.remove_scratch();
    }
}
