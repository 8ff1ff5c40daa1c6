//! Runner of the library: both tiers in one process, with the same guarantees.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use codebox::{
    ExecIo, Isolation, IsolationSet, Job, Language, Outcome, OutputSink, ResultKind, RunReport, Runner, Source, Stdin,
};

use crate::programs::{ALL, STARTS_THREAD, THREAD};
use crate::residue::wait_until_empty;
use crate::test_env::TestEnvironment;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("library", "reruns_in_container", reruns_in_container),
        case("library", "streams_both_runs", streams_both_runs),
        case("library", "starts_in_container", starts_in_container),
        case("library", "does_not_query_engines", does_not_query_engines),
        case("library", "accepts_only_wasm", accepts_only_wasm),
        case("library", "enforces_policy", enforces_policy),
        case("library", "not_rerun_after_grant_write", not_rerun_after_grant_write),
        case("library", "too_much_input", too_much_input),
        case("library", "concurrent_runs", concurrent_runs),
        case("library", "cancelled", cancelled),
        case("library", "dropped_future", dropped_future),
        case("library", "dropped_during_setup", dropped_during_setup),
        case("library", "keeps_warm_containers", keeps_warm_containers),
    ]
}

fn runner(test_env: &TestEnvironment) -> Result<Runner> {
    Ok(codebox::builder(codebox::AppDirs::below(&test_env.home().canonicalize()?)).build())
}

fn job(language: &str, code: &str) -> Result<Job> {
    let language: Language = language.parse()?;
    Ok(Job::new(Source::Inline(code.to_owned()), language))
}

/// Output sink that keeps all data.
#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputSink for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(())
    }
}

impl OutputBuffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Creates streams, and the sinks of their output.
fn capture_streams(input: impl Read + Send + 'static) -> (ExecIo, OutputBuffer, OutputBuffer) {
    let (out, err) = (OutputBuffer::default(), OutputBuffer::default());
    let io = ExecIo {
        stdin: Some(Box::new(input)),
        stdout: Some(Box::new(out.clone())),
        stderr: Some(Box::new(err.clone())),
        ..ExecIo::none()
    };
    (io, out, err)
}

fn check_rerun(test_env: &TestEnvironment, report: &RunReport, lacks: &str) -> Result<()> {
    let from = report.provenance.escalated_from.as_ref().with_context(|| format!("ran only once: {report:?}"))?;
    ensure!((from.backend.as_str(), from.isolation, from.reason.as_str()) == ("wasm", Isolation::Wasm, lacks));
    ensure!(report.provenance.backend.as_str() == test_env.engine.name(), "backend is {}", report.provenance.backend);
    ensure!(report.provenance.reason == format!("failed in wasm: missing {lacks}"));
    ensure!(report.needs_escalation.is_none(), "{:?}", report.needs_escalation);
    Ok(())
}

/// Checks that a run stayed in WebAssembly for this reason and that its remedy helps.
fn escalation_hint(report: &RunReport, why: &str) -> Result<()> {
    let escalation_hint =
        report.needs_escalation.as_ref().with_context(|| format!("no requirement is reported: {report:?}"))?;
    ensure!(report.provenance.isolation == Isolation::Wasm && report.outcome == Outcome::Exited(1), "{report:?}");
    ensure!(
        escalation_hint.reason == format!("the program needs threads, which WebAssembly does not support; {why}"),
        "{}",
        escalation_hint.reason
    );
    ensure!(
        escalation_hint.command == "request.isolation = Preference::Only(Isolation::Container)",
        "{}",
        escalation_hint.command
    );
    Ok(())
}

/// Every language and feature works, blocking and async, including with a caller's executor that only has a clock.
fn reruns_in_container(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for program in ALL {
        let job = job(program.language, program.code)?;
        for report in [runner.run(job.clone())?, executor.block_on(runner.run_async(&job))?] {
            check_rerun(test_env, &report, program.lacks).context(program.name)?;
            ensure!(report.stdout.to_text_lossy() == program.expected_stdout, "{}: {report:?}", program.name);
            ensure!(report.outcome == Outcome::Exited(7), "{}: {report:?}", program.name);
        }
    }
    drop(runner);
    test_env.check_nothing_left()
}

/// Output appears once, input is read in both runs, and the first run's error is not shown.
fn streams_both_runs(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let code = format!(
        "import sys\nprint('out', input(), flush=True)\n{STARTS_THREAD}print(sys.stdin.read(), end='')\nprint('err', file=sys.stderr)\n"
    );
    let (mut io, out, err) = capture_streams(io::Cursor::new(b"one\ntwo\nthree\n".to_vec()));
    let job = Job { stdin: Stdin::Streamed, ..Job::python(code) };
    let report = runner.run_with(&job, &mut io)?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(out.text() == "out one\ntwo\nthree\n", "streamed stdout is {:?}", out.text());
    ensure!(report.stdout.to_text_lossy() == out.text(), "the report has {:?}", report.stdout);
    ensure!(err.text() == "err\n", "streamed stderr is {:?}", err.text());
    // A run that is not repeated has forwarded all output at its end.
    let (mut io, out, err) = capture_streams(io::empty());
    let report = runner.run_with(Job::python("import sys\nprint('a')\nprint('b', file=sys.stderr)"), &mut io)?;
    ensure!(report.provenance.isolation == Isolation::Wasm, "{report:?}");
    ensure!((out.text(), err.text()) == ("a\n".to_owned(), "b\n".to_owned()), "{:?} {:?}", out.text(), err.text());
    // Input bytes are passed to both runs in full.
    let job = Job {
        stdin: Stdin::Bytes(b"given".to_vec()),
        ..Job::python(format!("word = input()\n{STARTS_THREAD}print(word)"))
    };
    let report = runner.run(job)?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout.to_text_lossy() == "given\n", "{report:?}");
    Ok(())
}

fn starts_in_container(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let report = runner.run(Job::python("import subprocess\nsubprocess.run(['echo', 'there'])"))?;
    let reason = "line 2 needs processes (subprocess.run), which WebAssembly does not support";
    ensure!(report.provenance.reason == reason, "{}", report.provenance.reason);
    ensure!(report.provenance.escalated_from.is_none() && report.stdout.to_text_lossy() == "there\n", "{report:?}");
    let arguments = ["sh", "-c", "cat; exit 3"].map(str::to_owned).to_vec();
    let (mut io, out, _) = capture_streams(io::Cursor::new(b"through".to_vec()));
    let job = Job { stdin: Stdin::Streamed, ..Job::new(Source::Command(arguments), Language::Command) };
    let report = runner.run_with(&job, &mut io)?;
    ensure!(report.outcome == Outcome::Exited(3) && out.text() == "through", "{report:?}");
    let requests_container = runner.run(Job::python("# codebox: isolation=container\nprint(1)"))?;
    ensure!(requests_container.provenance.isolation == Isolation::Container, "{requests_container:?}");
    let bad = runner.run(Job::python("# codebox: tier=1\nprint(1)"));
    ensure!(bad.as_ref().is_err_and(|error| error.kind() == ResultKind::InvalidRequest), "{bad:?}");
    Ok(())
}

/// Engines are not queried before a job needs one.
fn does_not_query_engines(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    for (language, code) in [("python", "print(1)"), ("python", "import threading\nprint(1)"), ("js", "console.log(1)")]
    {
        let (mut io, out, _) = capture_streams(io::empty());
        let report = runner.run_with(&job(language, code)?, &mut io)?;
        ensure!(report.provenance.isolation == Isolation::Wasm && out.text() == "1\n", "{report:?}");
        ensure!(report.provenance.reason.starts_with("wasm is the lightest"), "{}", report.provenance.reason);
    }
    let failed = runner.run(Job::python("raise SystemExit(1)"))?;
    ensure!(failed.needs_escalation.is_none(), "{failed:?}");
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    Ok(())
}

fn accepts_only_wasm(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let mut job = Job::python(THREAD.code);
    job.isolations = IsolationSet::only(Isolation::Wasm);
    escalation_hint(&runner.run(job.clone())?, "only isolation wasm is allowed")?;
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    job.isolations = IsolationSet::only(Isolation::Container);
    let report = runner.run(job)?;
    ensure!(report.provenance.reason == "container is the only isolation allowed", "{report:?}");
    ensure!(report.stdout.to_text_lossy() == THREAD.expected_stdout, "{report:?}");
    Ok(())
}

fn enforces_policy(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("escalation = \"forbid\"\n")?;
    let forbids = runner(test_env)?;
    escalation_hint(&forbids.run(Job::python(STARTS_THREAD))?, "the policy does not allow escalation")?;
    test_env.configure("isolation = \"wasm\"\n")?;
    let only_wasm = runner(test_env)?;
    let narrowed = only_wasm
        .run(Job::python(STARTS_THREAD))?
        .needs_escalation
        .context("the report suggests no rerun for threads")?;
    ensure!(narrowed.reason.ends_with("only isolation wasm is allowed by the configuration"), "{}", narrowed.reason);
    ensure!(narrowed.command.is_empty(), "{}", narrowed.command);
    let mut job = Job::python("print(1)");
    job.isolations = IsolationSet::only(Isolation::Container);
    let refused = only_wasm.run(job);
    ensure!(refused.as_ref().is_err_and(|error| error.kind() == ResultKind::Denied), "{refused:?}");
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    test_env.configure("network.allow = [\"*.example.org:443\"]\n")?;
    let allows = runner(test_env)?;
    let granted_dir = |host: &str| -> Result<Job> {
        let mut job = Job::python("print(1)");
        job.grants.net = vec![host.parse()?];
        Ok(job)
    };
    let refused = allows.run(granted_dir("example.com:443")?);
    ensure!(
        refused
            .as_ref()
            .is_err_and(|error| error.kind() == ResultKind::Denied && error.message().contains("example.com:443")),
        "{refused:?}"
    );
    ensure!(allows.run(granted_dir("a.example.org:443")?)?.is_success());
    test_env.configure("nonsense = 1\n")?;
    ensure!(runner(test_env)?.run(Job::python("print(1)")).is_err_and(|error| error.message().contains("nonsense")));
    test_env.configure("")
}

fn not_rerun_after_grant_write(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let mut job = Job::python(format!("open('/data/runs', 'a').write('x')\n{STARTS_THREAD}"));
    job.grants.dirs = vec![codebox::DirGrant {
        host: codebox::HostPath::native(&test_env.granted_dir().canonicalize()?)?,
        guest: codebox::GuestPath::new("/data")?,
        access: codebox::Access::ReadWrite,
    }];
    escalation_hint(&runner.run(job)?, "it has changed files outside its sandbox")?;
    ensure!(std::fs::read_to_string(test_env.granted_dir().join("runs"))? == "x", "ran more than once");
    Ok(())
}

fn too_much_input(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let (mut io, _, err) = capture_streams(io::repeat(b'x').take(2 << 20));
    let code = format!("import sys\nlen(sys.stdin.buffer.read())\n{STARTS_THREAD}");
    let job = Job { stdin: Stdin::Streamed, ..Job::python(code) };
    escalation_hint(&runner.run_with(&job, &mut io)?, "it has read more input than can be replayed")?;
    ensure!(err.text().ends_with("RuntimeError: can't start new thread\n"), "streamed stderr is {:?}", err.text());
    Ok(())
}

/// Runs many jobs concurrently and repeatedly, from threads with separate executors.
fn concurrent_runs(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let result: Vec<Result<()>> = thread::scope(|scope| {
        let start = |number: usize| {
            let runner = &runner;
            scope.spawn(move || {
                for round in 0..3 {
                    let report = runner.run(Job::python(format!("{STARTS_THREAD}print({number}, {round})")))?;
                    check_rerun(test_env, &report, "threads")?;
                    ensure!(report.stdout.to_text_lossy() == format!("{number} {round}\n"), "{report:?}");
                    let plain = runner.run(Job::python(format!("print({number})")))?;
                    ensure!(plain.provenance.isolation == Isolation::Wasm, "{plain:?}");
                }
                Ok(())
            })
        };
        let threads: Vec<_> = (0..4).map(start).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    });
    result.into_iter().collect::<Result<Vec<()>>>().map(drop)
}

/// Waits until the output contains a word.
fn wait_for_output(out: &OutputBuffer, word: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(100);
    while !out.text().contains(word) {
        ensure!(Instant::now() < until, "did not start in time");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn cancelled(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let code = format!("{STARTS_THREAD}import time\nprint('up', flush=True)\ntime.sleep(600)\n");
    let (mut io, out, _) = capture_streams(io::empty());
    let cancel = io.cancel.clone();
    let job = Job::python(code);
    let report = thread::scope(|scope| {
        let running = scope.spawn(|| runner.run_with(&job, &mut io));
        let started = wait_for_output(&out, "up");
        cancel.cancel();
        let report = running.join().map_err(|_| anyhow!("the run panicked"))??;
        started.map(|()| report)
    })?;
    ensure!(report.outcome == Outcome::Cancelled, "{report:?}");
    check_rerun(test_env, &report, "threads")?;
    ensure!(test_env.containers()?.is_empty(), "its container is left behind");
    Ok(())
}

/// Dropping the future stops the job, in either run, and removes its container.
fn dropped_future(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let code = format!("{STARTS_THREAD}import time\nprint('up', flush=True)\ntime.sleep(600)\n");
    for code in [code.as_str(), "import os\nos.getppid()\nprint('up', flush=True)\nos.system('sleep 600')"] {
        let (mut io, out, _) = capture_streams(io::empty());
        let job = Job::python(code);
        let interrupted = executor.block_on(async {
            let started = async {
                let until = Instant::now() + Duration::from_secs(100);
                while !out.text().contains("up") && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                ended = runner.run_async_with(&job, &mut io) => Err(anyhow!("ended early: {ended:?}")),
                () = started => Ok(()),
            }
        });
        interrupted?;
        ensure!(out.text().contains("up"), "did not start in time");
        wait_until_empty(|| test_env.containers())?;
    }
    // Dropping the runner at the same time works too.
    executor.block_on(async { drop(runner) });
    test_env.check_nothing_left()
}

/// A job that is dropped while its container is queried, created, started or removed leaves no remains.
fn dropped_during_setup(test_env: &TestEnvironment) -> Result<()> {
    let runner = runner(test_env)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut job = Job::python("print(1)");
    job.isolations = IsolationSet::only(Isolation::Container);
    let mut interrupted = 0;
    for step in 0..24 {
        let (mut io, ..) = capture_streams(io::empty());
        let delay = Duration::from_millis(step * 10);
        let ended =
            executor.block_on(async { tokio::time::timeout(delay, runner.run_async_with(&job, &mut io)).await });
        interrupted += usize::from(ended.is_err());
    }
    ensure!(interrupted >= 5, "only {interrupted} of 24 jobs were cancelled");
    // The runner is still alive, so the containers must have been removed with their jobs.
    wait_until_empty(|| test_env.containers())?;
    drop(runner);
    test_env.check_nothing_left()
}

/// With `warm` in the configuration, the runner keeps its own containers ready, one for each job, and removes them at
/// its end.
fn keeps_warm_containers(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("warm = 1\n")?;
    let runner = runner(test_env)?;
    let run = || -> Result<String> {
        let mut job = job("python", "print(len(__import__('os').listdir('/work')))\nopen('/work/mine', 'w').close()")?;
        job.isolations = IsolationSet::only(Isolation::Container);
        let report = runner.run(job)?;
        ensure!(report.stdout.to_text_lossy() == "0\n", "{report:?}");
        report.provenance.container_id.context("no container is named")
    };
    let one_is_running = || -> Result<Vec<String>> {
        let found = test_env.containers()?;
        let runs =
            |id: &String| test_env.engine.inspect(id).is_ok_and(|container| container["State"]["Running"] == true);
        Ok(if found.len() == 1 && found.iter().all(runs) { Vec::new() } else { vec![format!("{found:?}")] })
    };
    run()?;
    let mut reused = 0;
    for _ in 0..10 {
        wait_until_empty(one_is_running)?;
        let waiting = test_env.containers()?;
        // A container is not known to be ready until a moment after its start; a run before then gets another one.
        reused += usize::from(waiting == [run()?]);
        if reused == 2 {
            break;
        }
    }
    ensure!(reused == 2, "{reused} of 10 jobs used the ready container");
    drop(runner);
    test_env.check_nothing_left()
}
