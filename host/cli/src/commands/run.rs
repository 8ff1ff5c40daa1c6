//! `codebox run`.

use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use codebox_core::{Backend, BackendError, HostPath, Isolation, Outcome, ResultKind, RunReport, Stdin, exit, wire};
use codebox_service::{
    Admitted, Escalation, MAX_PROGRAM, Plan, PlanError, Program, Request, Wanted, admit, choose, look, plan_of, prepare,
};

use crate::answer;
use crate::args::{ProgramAt, RunArgs};
use crate::exit::PIPE;
use crate::failure::Failure;
use crate::host::{Confinement, Host};
use crate::interrupt;
use crate::progress::progress;
use crate::render::{explanation, notes};
use crate::streams::{Delivery, Streams};
use crate::voice::Voice;

/// Runs a program with its output as it comes, then says what there is to say.
pub(super) fn run(args: RunArgs, voice: Voice, host: &dyn Host) -> Result<u8, Failure> {
    let done = perform(args, Streams::live(), voice, host)?;
    if matches!(done.delivery, Delivery::ReaderGone) {
        return Ok(PIPE);
    }
    let lines = notes(&done.report, done.out.as_ref());
    if matches!(done.report.outcome, Outcome::Exited(_)) {
        lines.into_iter().for_each(|line| voice.note(line));
    } else {
        note_in_time(lines, voice);
    }
    explain(&done.report, voice);
    match done.delivery {
        Delivery::Failed(error) => Err(BackendError::io("write the guest's output", error).into()),
        Delivery::Whole | Delivery::ReaderGone => Ok(done.report.exit_status()),
    }
}

/// Runs a program and prints one JSON document, be it the report or codebox's own failure.
pub(super) fn run_as_json(args: RunArgs, voice: Voice, host: &dyn Host) -> u8 {
    let report = match perform(args, Streams::collected(), voice, host) {
        Ok(done) => done.report,
        Err(failure) => return answer::print_failure(&failure),
    };
    explain(&report, voice);
    match answer::print_json(&wire::v1::RunReport::from(&report)) {
        Ok(0) => report.exit_status(),
        Ok(status) => status,
        Err(failure) => {
            voice.fail(&failure);
            exit::FAILURE
        }
    }
}

/// How long somebody who does not read standard error keeps codebox from ending after a run that was stopped.
const PATIENCE: Duration = Duration::from_millis(500);

/// Says lines from a thread that is left behind when nobody takes them: the run's own output may fill the same pipe.
fn note_in_time(lines: Vec<String>, voice: Voice) {
    let (said, all) = mpsc::channel();
    let say = move || {
        lines.into_iter().for_each(|line| voice.note(line));
        let _ = said.send(());
    };
    if thread::Builder::new().spawn(say).is_ok() {
        let _ = all.recv_timeout(PATIENCE);
    }
}

fn explain(report: &RunReport, voice: Voice) {
    for line in explanation(report) {
        voice.explain(line);
    }
}

/// A run that came to an end.
struct Done {
    report: RunReport,
    out: Option<HostPath>,
    delivery: Delivery,
}

/// The way of a run, from arguments to a report.
///
/// Until the guest starts, `SIGINT` keeps its default: what a killed process leaves behind is swept at the next start.
fn perform(args: RunArgs, mut streams: Streams, voice: Voice, host: &dyn Host) -> Result<Done, Failure> {
    let confinement = if args.no_confine { Confinement::Off } else { Confinement::On };
    let policy = host.policy()?;
    let engine = args.engine.clone().or_else(|| policy.engine.clone());
    let admitted = admit(request(args)?, &policy, host.surroundings())?;
    // Has no thread of its own, so it can exist before the process confines itself.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| no_runtime(&error))?;
    let backends = host.backends(engine.as_deref())?;
    let plan = runtime.block_on(planned(&admitted, &backends, policy.escalation, voice, host))?;
    let backend =
        backends.iter().find(|backend| backend.id() == plan.choice.backend).ok_or_else(|| lost_backend(&plan))?;
    if plan.choice.isolation == Isolation::Container {
        let image = admitted.container_image().map(codebox_core::ImageName::as_str);
        runtime.block_on(host.ensure_image(
            &plan.choice.backend,
            &admitted.job().language,
            image,
            progress(voice).as_ref(),
        ))?;
    }
    let prepared = runtime.block_on(prepare(&admitted, &plan, *backend))?;
    let walls = match host.confine(&admitted, prepared.spec(), confinement) {
        Ok(walls) => walls,
        Err(failure) => {
            // The failure that is told of is the first one.
            let _closed = runtime.block_on(prepared.close());
            return Err(failure);
        }
    };
    interrupt::cancels(streams.io.cancel.clone());
    let mut report = runtime.block_on(prepared.exec(&mut streams.io))?;
    report.enforcement.walls.extend(walls);
    let delivery = streams.finish();
    // A thread may still wait for standard input; it ends with the process.
    runtime.shutdown_background();
    let out = admitted.out().cloned();
    Ok(Done { report, out, delivery })
}

/// Chooses where and from what image to run, and gets what that takes.
async fn planned(
    admitted: &Admitted,
    backends: &[&dyn Backend],
    escalation: Escalation,
    voice: Voice,
    host: &dyn Host,
) -> Result<Plan, Failure> {
    let looked = look(admitted).map_err(PlanError::from)?;
    let wanted = Wanted::of_admitted(admitted, &looked, escalation);
    let (_, choice) = choose(&wanted, backends).await;
    let choice = choice.map_err(PlanError::from)?;
    for other in &choice.rejected {
        voice.explain(format!("not {}: {}", other.candidate, other.reason));
    }
    let catalog = host.catalog()?;
    let facts = match choice.isolation {
        Isolation::Wasm => catalog.images(Some(&admitted.job().language))?.iter().map(|image| image.facts()).collect(),
        // Other isolations bring their own runtimes.
        Isolation::Container | Isolation::Vm => Vec::new(),
    };
    let plan = plan_of(admitted, &looked, choice, &facts)?;
    if plan.choice.isolation == Isolation::Wasm {
        catalog.ensure_language(&admitted.job().language, progress(voice).as_ref())?;
    }
    Ok(plan)
}

/// What the user asked for, with the program read if it comes from standard input.
pub(super) fn request(args: RunArgs) -> Result<Request, Failure> {
    let (program, mut words) = args.program()?;
    let limits = args.limits.overrides();
    let (program, stdin) = match program {
        ProgramAt::Inline(code) => (Program::Inline(code), Stdin::Streamed),
        ProgramAt::File(path) => (Program::File(path), Stdin::Streamed),
        ProgramAt::Stdin => (Program::Stdin(program_text(io::stdin())?), Stdin::Empty),
        ProgramAt::Command => (Program::Command(std::mem::take(&mut words)), Stdin::Streamed),
    };
    Ok(Request {
        language: args.lang,
        args: words,
        dirs: args.dirs,
        env: args.env,
        limits,
        isolation: args.isolation,
        image: args.image,
        out: args.out,
        stdin,
        ..Request::new(program)
    })
}

fn program_text(from: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more than may be shows admission that it is too much.
    match from.take(MAX_PROGRAM.get() + 1).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let fix = match error.kind() {
                io::ErrorKind::InvalidData => "give the program as UTF-8 text",
                _ => "give a program on standard input, or name its file",
            };
            let line = format!("cannot read the program from standard input: {error}");
            Err(Failure::new(ResultKind::InvalidRequest, line).with_fix(fix))
        }
    }
}

fn no_runtime(error: &io::Error) -> Failure {
    let line = format!("cannot start the timer that deadlines need: {error}");
    Failure::new(ResultKind::InternalError, line)
}

fn lost_backend(plan: &Plan) -> Failure {
    let line = format!("the backend {} was chosen and is not there", plan.choice.backend);
    Failure::new(ResultKind::InternalError, line)
}

#[cfg(test)]
mod tests;
