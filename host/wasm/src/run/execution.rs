//! One turn of a guest, from its start to its results.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use codebox_core::Job;
use codebox_files::file_time;
use codebox_streams::DRAIN_TIMEOUT;

use crate::code::CodeImage;
use crate::component::{self, ComponentCode};
use crate::error::WasmError;
use crate::guest::{GuestResult, Parts};
use crate::image::ENTRY_TEXT;
use crate::interrupt::Interrupt;
use crate::launch::{Entry, GuestInstance, Setup};
use crate::program::{ComponentProgram, ModuleProgram, ProgramCode, ProgramForm};
use crate::region::RegionPool;
use crate::run::classify::{CallOutcome, Evidence, classify};
use crate::run::session::SessionGuest;
use crate::run::threads::on_own_thread;

/// The result of a turn.
pub(crate) struct Execution {
    pub end: CallOutcome,
    pub result: GuestResult,
    /// Start of the program, after its guest was created.
    pub started: Instant,
    /// Start of the program, by the clock of file timestamps.
    pub started_at: SystemTime,
    pub wall_time: Duration,
    /// Processor time used by the turn.
    pub cpu_time: Duration,
}

/// Runs a job in a guest that is restored from an image.
///
/// With `has_own_thread`, the calling thread has no other tasks while the job runs.
pub(crate) async fn run_image(
    code: &CodeImage,
    pool: &Arc<RegionPool>,
    setup: Setup<'_>,
    interrupt: Interrupt,
    has_own_thread: bool,
) -> Result<Execution, WasmError> {
    let instance = GuestInstance::start(code, pool, setup)?;
    let (instance, execution) = run_job(instance, entry(pool)?, interrupt, has_own_thread).await?;
    if execution.end.reusable {
        instance.mark_clean();
    }
    Ok(execution)
}

/// Returns the code that starts a job in guests of an image.
pub(crate) fn entry(pool: &RegionPool) -> Result<Entry, WasmError> {
    let entry = pool.image().facts().entry.map(|(at, len)| Entry::Copied(at, len));
    entry.ok_or_else(|| WasmError::Prelude("the image has no entry".into()))
}

/// Runs a cell in the guest of a session.
pub(crate) async fn run_cell(
    guest: SessionGuest,
    interrupt: Interrupt,
    has_own_thread: bool,
) -> Result<(GuestInstance, Execution), WasmError> {
    let (instance, entry) = match guest {
        SessionGuest::New(instance, entry) => (instance, entry),
        // The text of the image was freed by an earlier job.
        SessionGuest::Used(instance) => (instance, Entry::Text(ENTRY_TEXT)),
    };
    run_job(instance, entry, interrupt, has_own_thread).await
}

/// Runs a job in a guest. Returns the guest, which can run a further job if the end is reusable.
///
/// With `has_own_thread`, the calling thread has no other tasks while the job runs.
async fn run_job(
    mut instance: GuestInstance,
    entry: Entry,
    interrupt: Interrupt,
    has_own_thread: bool,
) -> Result<(GuestInstance, Execution), WasmError> {
    let needs_thread = !has_own_thread && !instance.yields();
    let abandoned = interrupt.abandoned.clone();
    let (started, started_at) = (Instant::now(), file_time());
    let work = async move {
        let (end, cpu_time) = instance.run_turn(&interrupt, entry).await?;
        let wall_time = started.elapsed();
        if end.is_err() {
            let drain = tokio::time::timeout(DRAIN_TIMEOUT, instance.guest().delivery.finish());
            tokio::select! {
                biased;
                () = interrupt.abandoned.cancelled() => {}
                _ = drain => {}
            }
        }
        Ok::<_, WasmError>((instance, end, cpu_time, wall_time))
    };
    let worked = if needs_thread {
        let failed = WasmError::engine("start a thread for the guest");
        on_own_thread(work, abandoned).await.map_err(|error| failed(error.into()))?
    } else {
        work.await
    };
    let (mut instance, end, cpu_time, wall_time) = worked?;
    // A part of the code that cannot be loaded is a failure of the host, and not of the program.
    let end = match end {
        Ok(Err(error)) => Ok(Err(match error.downcast::<WasmError>() {
            Ok(error) => return Err(error),
            Err(error) => error,
        })),
        end => end,
    };
    let guest = instance.guest();
    let has_all_code = guest.parts.as_ref().is_none_or(Parts::is_complete);
    let evidence = Evidence { channel: &guest.channel, limiter: &guest.limiter, quota: &guest.quota, has_all_code };
    let end = classify(end, evidence);
    let result = instance.end_job();
    Ok((instance, Execution { end, result, started, started_at, wall_time, cpu_time }))
}

/// A guest that is created for one job.
pub(crate) trait OnceGuest: Send {
    /// Runs the job to its end and returns its exit status.
    fn run(&mut self, job: &Job) -> impl Future<Output = wasmtime::Result<i32>> + Send;

    /// Waits until all of the guest's output is delivered.
    fn finish(&mut self) -> impl Future<Output = ()> + Send;

    /// Consumes the guest and returns its messages, counters and output.
    fn end(self) -> GuestResult;
}

/// Runs a program that is WebAssembly itself.
pub(crate) async fn run_program(
    code: &ProgramCode,
    setup: Setup<'_>,
    interrupt: &Interrupt,
    job: &Job,
) -> Result<Execution, WasmError> {
    match &code.form {
        ProgramForm::Module(pre) => run_once(ModuleProgram::new(pre, &code.ticker, setup, job)?, interrupt, job).await,
        ProgramForm::Component(pre) => {
            run_once(ComponentProgram::new(pre, &code.ticker, setup, job)?, interrupt, job).await
        }
    }
}

/// Runs a job in a component, which is instantiated for the job.
pub(crate) async fn run_component(
    code: &ComponentCode,
    setup: Setup<'_>,
    interrupt: &Interrupt,
    job: &Job,
) -> Result<Execution, WasmError> {
    run_once(component::GuestInstance::new(code, setup, job)?, interrupt, job).await
}

async fn run_once(mut instance: impl OnceGuest, interrupt: &Interrupt, job: &Job) -> Result<Execution, WasmError> {
    let (started, started_at) = (Instant::now(), file_time());
    // A program has ended once its output is delivered. The instantiation runs the user's code, so the limits apply to it too.
    let turn = async {
        let end = instance.run(job).await;
        instance.finish().await;
        end
    };
    let (end, cpu_time) = interrupt.watch(turn, None).await;
    let wall_time = started.elapsed();
    if end.is_err() {
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, instance.finish()).await;
    }
    let result = instance.end();
    let evidence =
        Evidence { channel: &result.channel, limiter: &result.limiter, quota: &result.quota, has_all_code: true };
    let end = classify(end, evidence);
    Ok(Execution { end, result, started, started_at, wall_time, cpu_time })
}
