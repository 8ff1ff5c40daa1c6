//! Runner of the library: both tiers in one process, with the same guarantees.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use codebox::{
    CancelToken, ExecIo, Isolation, IsolationSet, Job, Language, Outcome, OutputSink, ResultKind, RunReport, Runner,
    Source, Stdin,
};

use crate::ground::Ground;
use crate::programs::{ALL, DIES, THREAD};
use crate::residue::settle;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("library", "runs_again", runs_again),
        case("library", "streams_go_on", streams_go_on),
        case("library", "goes_straight", goes_straight),
        case("library", "touches_no_engine", touches_no_engine),
        case("library", "accepts_only_wasm", accepts_only_wasm),
        case("library", "policy_holds", policy_holds),
        case("library", "wrote_to_a_grant", wrote_to_a_grant),
        case("library", "too_much_input", too_much_input),
        case("library", "side_by_side", side_by_side),
        case("library", "cancelled", cancelled),
        case("library", "dropped", dropped),
        case("library", "dropped_while_made", dropped_while_made),
        case("library", "keeps_ready", keeps_ready),
    ]
}

fn runner(ground: &Ground) -> Result<Runner> {
    Ok(codebox::builder(codebox::Places::below(&ground.home().canonicalize()?)).build())
}

fn job(language: &str, code: &str) -> Result<Job> {
    let language: Language = language.parse()?;
    Ok(Job::new(Source::Inline(code.to_owned()), language))
}

/// Output sink that keeps all data.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl OutputSink for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(())
    }
}

impl Heard {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Creates streams, and the sinks of their output.
fn streams(input: impl Read + Send + 'static) -> (ExecIo, Heard, Heard) {
    let (out, err) = (Heard::default(), Heard::default());
    let io = ExecIo {
        stdin: Some(Box::new(input)),
        stdout: Some(Box::new(out.clone())),
        stderr: Some(Box::new(err.clone())),
        cancel: CancelToken::new(),
    };
    (io, out, err)
}

fn is_second(ground: &Ground, report: &RunReport, lacks: &str) -> Result<()> {
    let from = report.provenance.escalated_from.as_ref().with_context(|| format!("it ran once: {report:?}"))?;
    ensure!((from.backend.as_str(), from.isolation, from.reason.as_str()) == ("wasm", Isolation::Wasm, lacks));
    ensure!(report.provenance.backend.as_str() == ground.engine.name(), "it ran in {}", report.provenance.backend);
    ensure!(report.provenance.reason == format!("failed in wasm: missing {lacks}"));
    ensure!(report.needs_escalation.is_none(), "{:?}", report.needs_escalation);
    Ok(())
}

/// Checks that a run stayed in WebAssembly for this reason and that its remedy helps.
fn needs(report: &RunReport, why: &str) -> Result<()> {
    let needs = report.needs_escalation.as_ref().with_context(|| format!("nothing is needed: {report:?}"))?;
    ensure!(report.provenance.isolation == Isolation::Wasm && report.outcome == Outcome::Exited(1), "{report:?}");
    ensure!(needs.reason == format!("it needs threads, which WebAssembly does not support; {why}"), "{}", needs.reason);
    ensure!(needs.command == "request.isolation = Preference::Only(Isolation::Container)", "{}", needs.command);
    Ok(())
}

/// Every language and feature works, blocking and async, including with a caller's executor that only has a clock.
fn runs_again(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for needy in ALL {
        let job = job(needy.language, needy.code)?;
        for report in [runner.run(job.clone())?, executor.block_on(runner.run_async(&job))?] {
            is_second(ground, &report, needy.lacks).context(needy.name)?;
            ensure!(report.stdout.to_text_lossy() == needy.prints, "{}: {report:?}", needy.name);
            ensure!(report.outcome == Outcome::Exited(7), "{}: {report:?}", needy.name);
        }
    }
    drop(runner);
    ground.check_nothing_left()
}

/// Output appears once, input is read in both runs, and the first run's error is not shown.
fn streams_go_on(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let code = format!(
        "import sys\nprint('out', input(), flush=True)\n{DIES}print(sys.stdin.read(), end='')\nprint('err', file=sys.stderr)\n"
    );
    let (mut io, out, err) = streams(io::Cursor::new(b"one\ntwo\nthree\n".to_vec()));
    let job = Job { stdin: Stdin::Streamed, ..Job::python(code) };
    let report = runner.run_with(&job, &mut io)?;
    is_second(ground, &report, "threads")?;
    ensure!(out.text() == "out one\ntwo\nthree\n", "it was heard to print {:?}", out.text());
    ensure!(report.stdout.to_text_lossy() == out.text(), "the report has {:?}", report.stdout);
    ensure!(err.text() == "err\n", "it was heard to say {:?}", err.text());
    // A run that is not repeated has forwarded all output at its end.
    let (mut io, out, err) = streams(io::empty());
    let report = runner.run_with(&Job::python("import sys\nprint('a')\nprint('b', file=sys.stderr)"), &mut io)?;
    ensure!(report.provenance.isolation == Isolation::Wasm, "{report:?}");
    ensure!((out.text(), err.text()) == ("a\n".to_owned(), "b\n".to_owned()), "{:?} {:?}", out.text(), err.text());
    // Input bytes are passed to both runs in full.
    let job =
        Job { stdin: Stdin::Bytes(b"given".to_vec()), ..Job::python(format!("word = input()\n{DIES}print(word)")) };
    let report = runner.run(job)?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout.to_text_lossy() == "given\n", "{report:?}");
    Ok(())
}

fn goes_straight(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let report = runner.run(Job::python("import subprocess\nsubprocess.run(['echo', 'there'])"))?;
    let reason = "line 2 needs processes (subprocess.run), which WebAssembly does not support";
    ensure!(report.provenance.reason == reason, "{}", report.provenance.reason);
    ensure!(report.provenance.escalated_from.is_none() && report.stdout.to_text_lossy() == "there\n", "{report:?}");
    let words = ["sh", "-c", "cat; exit 3"].map(str::to_owned).to_vec();
    let (mut io, out, _) = streams(io::Cursor::new(b"through".to_vec()));
    let job = Job { stdin: Stdin::Streamed, ..Job::new(Source::Command(words), Language::Command) };
    let report = runner.run_with(&job, &mut io)?;
    ensure!(report.outcome == Outcome::Exited(3) && out.text() == "through", "{report:?}");
    let asks = runner.run(Job::python("# codebox: isolation=container\nprint(1)"))?;
    ensure!(asks.provenance.isolation == Isolation::Container, "{asks:?}");
    let bad = runner.run(Job::python("# codebox: tier=1\nprint(1)"));
    ensure!(bad.as_ref().is_err_and(|error| error.kind() == ResultKind::InvalidRequest), "{bad:?}");
    Ok(())
}

/// Engines are not queried before a job needs one.
fn touches_no_engine(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    for (language, code) in [("python", "print(1)"), ("python", "import threading\nprint(1)"), ("js", "console.log(1)")]
    {
        let (mut io, out, _) = streams(io::empty());
        let report = runner.run_with(&job(language, code)?, &mut io)?;
        ensure!(report.provenance.isolation == Isolation::Wasm && out.text() == "1\n", "{report:?}");
        ensure!(report.provenance.reason.starts_with("wasm is the lightest"), "{}", report.provenance.reason);
    }
    let failed = runner.run(Job::python("raise SystemExit(1)"))?;
    ensure!(failed.needs_escalation.is_none(), "{failed:?}");
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    Ok(())
}

fn accepts_only_wasm(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let mut job = Job::python(THREAD.code);
    job.isolations = IsolationSet::only(Isolation::Wasm);
    needs(&runner.run(job.clone())?, "only isolation wasm is allowed")?;
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    job.isolations = IsolationSet::only(Isolation::Container);
    let report = runner.run(job)?;
    ensure!(report.provenance.reason == "container is the only isolation allowed", "{report:?}");
    ensure!(report.stdout.to_text_lossy() == THREAD.prints, "{report:?}");
    Ok(())
}

fn policy_holds(ground: &Ground) -> Result<()> {
    ground.configure("escalation = \"forbid\"\n")?;
    let forbids = runner(ground)?;
    needs(&forbids.run(Job::python(DIES))?, "the policy does not allow escalation")?;
    ground.configure("isolation = \"wasm\"\n")?;
    let narrow = runner(ground)?;
    let narrowed = narrow.run(Job::python(DIES))?.needs_escalation.context("it needs threads")?;
    ensure!(narrowed.reason.ends_with("only wasm is accepted by the configuration"), "{}", narrowed.reason);
    ensure!(narrowed.command.is_empty(), "{}", narrowed.command);
    let mut job = Job::python("print(1)");
    job.isolations = IsolationSet::only(Isolation::Container);
    let refused = narrow.run(job);
    ensure!(refused.as_ref().is_err_and(|error| error.kind() == ResultKind::Denied), "{refused:?}");
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    ground.configure("network.allow = [\"*.example.org:443\"]\n")?;
    let allows = runner(ground)?;
    let granted = |host: &str| -> Result<Job> {
        let mut job = Job::python("print(1)");
        job.grants.net = vec![host.parse()?];
        Ok(job)
    };
    let refused = allows.run(granted("example.com:443")?);
    ensure!(
        refused
            .as_ref()
            .is_err_and(|error| error.kind() == ResultKind::Denied && error.message().contains("example.com:443")),
        "{refused:?}"
    );
    ensure!(allows.run(granted("a.example.org:443")?)?.is_success());
    ground.configure("nonsense = 1\n")?;
    ensure!(runner(ground)?.run(Job::python("print(1)")).is_err_and(|error| error.message().contains("nonsense")));
    ground.configure("")
}

fn wrote_to_a_grant(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let mut job = Job::python(format!("open('/data/runs', 'a').write('x')\n{DIES}"));
    job.grants.dirs = vec![codebox::DirGrant {
        host: codebox::HostPath::native(&ground.granted().canonicalize()?)?,
        guest: codebox::GuestPath::new("/data")?,
        access: codebox::Access::ReadWrite,
    }];
    needs(&runner.run(job)?, "it has changed files outside its sandbox")?;
    ensure!(std::fs::read_to_string(ground.granted().join("runs"))? == "x", "it ran more than once");
    Ok(())
}

fn too_much_input(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let (mut io, _, err) = streams(io::repeat(b'x').take(2 << 20));
    let code = format!("import sys\nlen(sys.stdin.buffer.read())\n{DIES}");
    let job = Job { stdin: Stdin::Streamed, ..Job::python(code) };
    needs(&runner.run_with(&job, &mut io)?, "it has read more input than can be replayed")?;
    ensure!(err.text().ends_with("RuntimeError: can't start new thread\n"), "it was heard to say {:?}", err.text());
    Ok(())
}

/// Runs many jobs concurrently and repeatedly, from threads with separate executors.
fn side_by_side(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let ran: Vec<Result<()>> = thread::scope(|scope| {
        let start = |number: usize| {
            let runner = &runner;
            scope.spawn(move || {
                for round in 0..3 {
                    let report = runner.run(Job::python(format!("{DIES}print({number}, {round})")))?;
                    is_second(ground, &report, "threads")?;
                    ensure!(report.stdout.to_text_lossy() == format!("{number} {round}\n"), "{report:?}");
                    let beside = runner.run(Job::python(format!("print({number})")))?;
                    ensure!(beside.provenance.isolation == Isolation::Wasm, "{beside:?}");
                }
                Ok(())
            })
        };
        let threads: Vec<_> = (0..4).map(start).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    });
    ran.into_iter().collect::<Result<Vec<()>>>().map(drop)
}

/// Waits until the output contains a word.
fn heard(out: &Heard, word: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(100);
    while !out.text().contains(word) {
        ensure!(Instant::now() < until, "it does not come up");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn cancelled(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let code = format!("{DIES}import time\nprint('up', flush=True)\ntime.sleep(600)\n");
    let (mut io, out, _) = streams(io::empty());
    let cancel = io.cancel.clone();
    let job = Job::python(code);
    let report = thread::scope(|scope| {
        let running = scope.spawn(|| runner.run_with(&job, &mut io));
        let up = heard(&out, "up");
        cancel.cancel();
        let report = running.join().map_err(|_| anyhow!("the run panicked"))??;
        up.map(|()| report)
    })?;
    ensure!(report.outcome == Outcome::Cancelled, "{report:?}");
    is_second(ground, &report, "threads")?;
    ensure!(ground.containers()?.is_empty(), "its container is left");
    Ok(())
}

/// Dropping the future stops the job, in either run, and removes its container.
fn dropped(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let code = format!("{DIES}import time\nprint('up', flush=True)\ntime.sleep(600)\n");
    for code in [code.as_str(), "import os\nos.getppid()\nprint('up', flush=True)\nos.system('sleep 600')"] {
        let (mut io, out, _) = streams(io::empty());
        let job = Job::python(code);
        let given_up = executor.block_on(async {
            let up = async {
                let until = Instant::now() + Duration::from_secs(100);
                while !out.text().contains("up") && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                ended = runner.run_async_with(&job, &mut io) => Err(anyhow!("it ended: {ended:?}")),
                () = up => Ok(()),
            }
        });
        given_up?;
        ensure!(out.text().contains("up"), "it does not come up");
        settle(|| ground.containers())?;
    }
    // Dropping the runner at the same time works too.
    executor.block_on(async { drop(runner) });
    ground.check_nothing_left()
}

/// A job that is dropped while its container is queried, created, started or removed leaves no remains.
fn dropped_while_made(ground: &Ground) -> Result<()> {
    let runner = runner(ground)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut job = Job::python("print(1)");
    job.isolations = IsolationSet::only(Isolation::Container);
    let mut given_up = 0;
    for step in 0..24 {
        let (mut io, ..) = streams(io::empty());
        let patience = Duration::from_millis(step * 10);
        let ended =
            executor.block_on(async { tokio::time::timeout(patience, runner.run_async_with(&job, &mut io)).await });
        given_up += usize::from(ended.is_err());
    }
    ensure!(given_up >= 5, "only {given_up} of 24 jobs were given up");
    // The runner is still alive, so the containers must have been removed with their jobs.
    settle(|| ground.containers())?;
    drop(runner);
    ground.check_nothing_left()
}

/// With `warm` in the configuration, the runner keeps its own containers ready, one for each job, and removes them at
/// its end.
fn keeps_ready(ground: &Ground) -> Result<()> {
    ground.configure("warm = 1\n")?;
    let runner = runner(ground)?;
    let run = || -> Result<String> {
        let mut job = job("python", "print(len(__import__('os').listdir('/work')))\nopen('/work/mine', 'w').close()")?;
        job.isolations = IsolationSet::only(Isolation::Container);
        let report = runner.run(job)?;
        ensure!(report.stdout.to_text_lossy() == "0\n", "{report:?}");
        report.provenance.container_id.context("no container is named")
    };
    let one_runs = || -> Result<Vec<String>> {
        let found = ground.containers()?;
        let runs = |id: &String| ground.engine.inspect(id).is_ok_and(|told| told["State"]["Running"] == true);
        Ok(if found.len() == 1 && found.iter().all(runs) { Vec::new() } else { vec![format!("{found:?}")] })
    };
    run()?;
    let mut served = 0;
    for _ in 0..10 {
        settle(one_runs)?;
        let waiting = ground.containers()?;
        // A container is not known to be ready until a moment after its start; a run before then gets another one.
        served += usize::from(waiting == [run()?]);
        if served == 2 {
            break;
        }
    }
    ensure!(served == 2, "{served} of 10 jobs had the container that was waiting");
    drop(runner);
    ground.check_nothing_left()
}
