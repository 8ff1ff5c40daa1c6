//! `codebox run`.

use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use codebox_core::{BackendError, Outcome, ResultKind, RunReport, Stdin, exit, wire};
use codebox_service::{MAX_PROGRAM, Plan, Program, Request};

use crate::answer;
use crate::args::{ProgramAt, RunArgs};
use crate::exit::PIPE;
use crate::failure::Failure;
use crate::host::Host;
use crate::render::{explanation, notes};
use crate::streams::{Delivery, Streams};
use crate::voice::Voice;

mod attempt;

pub(crate) use attempt::Takeover;
use attempt::{Attempt, attempt};

/// Runs a program, prints the notes about it, as lines or as one JSON document, and returns the exit status.
pub(super) fn run(args: RunArgs, voice: Voice, host: &dyn Host, mut takeover: Option<Takeover>) -> u8 {
    let is_json = args.json;
    let streams = if is_json { Streams::collected() } else { Streams::live() };
    if let Some(takeover) = &takeover {
        takeover.watch(streams.io.cancel.clone());
    }
    let attempt = attempt(args, streams, (voice, host), takeover.as_mut());
    if let (Err(failure), Some(takeover)) = (&attempt, &mut takeover)
        && takeover.refuse(failure)
    {
        return failure.exit_status();
    }
    let status = if is_json { as_json(attempt, voice) } else { as_lines(attempt, voice) };
    if let Some(takeover) = takeover {
        takeover.end(status);
    }
    status
}

fn as_lines(attempt: Result<Attempt, Failure>, voice: Voice) -> u8 {
    let said = attempt.and_then(|attempt| match attempt {
        Attempt::Done(done) if matches!(done.delivery, Delivery::ReaderGone) => Ok(PIPE),
        Attempt::Done(done) => {
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
        Attempt::TakenOver(status) => Ok(status),
    });
    said.unwrap_or_else(|failure| {
        voice.fail(&failure);
        failure.exit_status()
    })
}

fn as_json(attempt: Result<Attempt, Failure>, voice: Voice) -> u8 {
    let report = match attempt {
        Ok(Attempt::Done(done)) => done.report,
        Ok(Attempt::TakenOver(status)) => return status,
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

/// Time limit for writing notes to a standard error that is not read, after a run that was stopped.
const PATIENCE: Duration = Duration::from_millis(500);

/// Prints lines from a thread that is abandoned if they are not read, because the run's output may have filled the same
/// pipe.
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

/// Builds the request from the arguments. A program on standard input is read unless it is already `known`.
pub(super) fn request(args: RunArgs, known: Option<String>) -> Result<Request, Failure> {
    let (program, mut words) = args.program()?;
    let limits = args.limits.overrides();
    let (program, stdin) = match program {
        ProgramAt::Inline(code) => (Program::Inline(code), Stdin::Streamed),
        ProgramAt::File(path) => (Program::File(path), Stdin::Streamed),
        ProgramAt::Stdin => {
            let text = known.map_or_else(|| program_text(io::stdin()), Ok)?;
            (Program::Stdin(text), Stdin::Empty)
        }
        ProgramAt::Command => (Program::Command(std::mem::take(&mut words)), Stdin::Streamed),
    };
    Ok(Request {
        language: args.lang,
        args: words,
        dirs: args.dirs,
        net: args.net,
        env: args.env,
        limits,
        isolation: args.isolation,
        image: args.image,
        out: args.out,
        stdin,
        warm: args.warm,
        packages: args.with,
        requirements: args.requirements,
        build: args.build,
        ..Request::new(program)
    })
}

fn program_text(from: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte above the maximum shows admission that the program is too large.
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

fn lost_takeover() -> Failure {
    let line = "cannot tell how the program ended: the process that ran it again in a container is gone";
    Failure::new(ResultKind::InternalError, line).with_fix("run it again, with --isolation container")
}

fn lost_backend(plan: &Plan) -> Failure {
    let line = format!("the backend {} was chosen and is not there", plan.choice.backend);
    Failure::new(ResultKind::InternalError, line)
}

#[cfg(test)]
mod tests;
