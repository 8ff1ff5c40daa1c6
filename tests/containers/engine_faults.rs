//! L12: an engine's socket that disconnects, stalls or sends corrupt data, at each call of a job.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use codebox_testkit::{BytePosition, EngineCall, Fault, Report, Soak, soak};

use crate::engine::Engine;
use crate::engine_proxy::{check_gc_removes_all, proxy, via_proxy};
use crate::parallel_map::parallel_map;
use crate::rng::Rng;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("L12::each_call", each_call), row("L12::any_byte", any_byte), row("L12::stalled_engine", stalled_engine)]
}

/// Deadline far above codebox's timeouts for an engine: only a hanging run reaches it.
const RUN_DEADLINE: Duration = Duration::from_secs(90);

/// Concurrency of runs that wait for a stalled engine, which cost nothing while they wait.
const STALLED_CONCURRENCY: usize = 12;

/// Concurrency of other runs. Each queries its engine for the first time, which costs one engine a second of CPU time.
const CONCURRENCY: usize = 2;

const CALLS: [EngineCall; 10] = [
    EngineCall::Ping,
    EngineCall::Version,
    EngineCall::Info,
    EngineCall::Image,
    EngineCall::Create,
    EngineCall::Attach,
    EngineCall::Start,
    EngineCall::Inspect,
    EngineCall::Remove,
    EngineCall::List,
];

const PROGRAM: &str = "for n in range(50): print('line', n, flush=True)";

fn printed() -> String {
    (0..50).map(|n| format!("line {n}\n")).collect()
}

/// Returns a fault in a significant byte of a response: in its body, if it has one.
fn corrupt(call: EngineCall) -> Fault {
    match call {
        // First digit of the status code. These responses have only a status.
        EngineCall::Ping | EngineCall::Start | EngineCall::Remove => Fault::Corrupt(BytePosition::Response(9), 1),
        // Kind of the agent's first message.
        EngineCall::Attach => Fault::Corrupt(BytePosition::Body(8), 1),
        _ => Fault::Corrupt(BytePosition::Body(12), 1),
    }
}

fn each_call(test_env: &TestEnvironment) -> Result<()> {
    let mut cases = Vec::new();
    for (index, call) in CALLS.into_iter().enumerate() {
        cases.push((call, Fault::Stall(BytePosition::Response(0))));
        let others = [Fault::CutRequest, Fault::Cut(BytePosition::Response(20)), corrupt(call)];
        // Each takes a second. The short form tries one of them for each call.
        let others = others.into_iter().cycle().skip(index).take(soak().of(1, 3));
        cases.extend(others.map(|fault| (call, fault)));
    }
    run_concurrently(cases, |(call, fault)| try_fault(test_env, *call, *fault))?;
    check_gc_removes_all(test_env)
}

/// Tries the stalling faults alongside the others.
fn run_concurrently(
    cases: Vec<(EngineCall, Fault)>,
    try_fault: impl Fn(&(EngineCall, Fault)) -> Result<()> + Sync,
) -> Result<()> {
    let (stalls, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|(_, fault)| matches!(fault, Fault::Stall(_)));
    thread::scope(|scope| {
        let stalled_results = scope.spawn(|| parallel_map(STALLED_CONCURRENCY, &stalls, &try_fault));
        let other_results = parallel_map(CONCURRENCY, &others, &try_fault);
        stalled_results.join().map_err(|_| anyhow!("a thread of the test panicked"))??;
        other_results.map(drop)
    })
}

/// An engine that stalls for good during a job: the outcome of the job is unknown, so the report is not a timeout, and
/// it contains the output so far.
fn stalled_engine(test_env: &TestEnvironment) -> Result<()> {
    let proxy = proxy(test_env.engine)?;
    let run = || via_proxy(&proxy, test_env.engine, test_env.run()).deadline(RUN_DEADLINE);
    let job = |timeout| run().args(["--timeout", timeout, "--lang", "python", "-c", SLOW_PROGRAM]);
    // An engine that was probed before receives no further queries.
    let first = run().args(["--lang", "python", "-c", "print(1)"]).run()?;
    ensure!(first.code == Some(0), "without a fault: {} {}", first.stdout_text(), first.stderr_text());
    let stalls = Fault::Stall(BytePosition::Response(0));
    let calls = [EngineCall::Inspect, EngineCall::Remove, EngineCall::List, EngineCall::Other];
    let attached = (EngineCall::Attach, Fault::Stall(BytePosition::Body(400)));
    proxy.set_faults(&calls.map(|call| (call, stalls)).into_iter().chain([attached]).collect::<Vec<_>>());
    let result = job("3s").run()?;
    ensure!(
        !result.timed_out && result.code == Some(125),
        "exit status is {:?}: {}",
        result.code,
        result.stderr_text()
    );
    let report = result.report()?;
    ensure!(report.kind() == "engine_lost", "reported as {}", report.json());
    let printed = report.at("/partial/stdout").as_str().unwrap_or_default();
    ensure!(printed.starts_with("line 0\nline 1\n"), "partial output is missing: {}", report.json());
    check_gc_removes_all(test_env)
}

const SLOW_PROGRAM: &str =
    "import time\nfor n in range(99):\n    print('line', n, flush=True)\n    time.sleep(0.005)\ntime.sleep(600)";

/// Any fault at any byte. In the attached stream only the first bytes count, which are framing of the engine and the
/// agent; a changed letter of a job's output is not detectable.
fn any_byte(test_env: &TestEnvironment) -> Result<()> {
    let mut rng = Rng::new();
    let seed = rng.seed();
    let mut cases = Vec::new();
    for _ in 0..soak().of(8, 300) {
        let call = rng.one(&CALLS);
        let max_offset = if call == EngineCall::Attach { 31 } else { 120 };
        let at = usize::try_from(rng.below(max_offset))?;
        let spot = if rng.below(3) > 0 { BytePosition::Body(at) } else { BytePosition::Response(at) };
        // With its highest bit set, no byte is an ASCII character.
        let bits = u8::try_from(rng.below(128))? | 128;
        let all = [Fault::CutRequest, Fault::Cut(spot), Fault::Corrupt(spot, bits), Fault::Stall(spot)];
        // A stall takes most of a minute, and `each_call` tries a stall of each call.
        let fault = rng.one(if soak() == Soak::Long { &all } else { &all[..3] });
        cases.push((call, fault));
    }
    let try_fault = |(call, fault): &(EngineCall, Fault)| match try_fault(test_env, *call, *fault) {
        // The response is shorter than the position of the fault.
        Err(error) if error.is::<FaultNotInjected>() => Ok(()),
        other => other,
    };
    run_concurrently(cases, try_fault).with_context(|| format!("seed {seed}"))?;
    check_gc_removes_all(test_env)
}

/// Error of a trial whose fault was not injected.
#[derive(Debug)]
struct FaultNotInjected;

impl std::fmt::Display for FaultNotInjected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fault was not injected")
    }
}

impl std::error::Error for FaultNotInjected {}

/// Runs a job with a fault. codebox ends and either reports the fault or gives a correct result.
fn try_fault(test_env: &TestEnvironment, call: EngineCall, fault: Fault) -> Result<()> {
    let what = || format!("{call:?} {fault:?}");
    let proxy = proxy(test_env.engine)?;
    let run = || via_proxy(&proxy, test_env.engine, test_env.run()).deadline(RUN_DEADLINE);
    let job = || run().args(["--timeout", "10s", "--lang", "python", "-c", PROGRAM]);
    if call == EngineCall::Ping {
        // Only an engine that was probed before receives nothing but a ping.
        let first = job().run()?;
        ensure!(first.code == Some(0), "without a fault: {} {}", first.stdout_text(), first.stderr_text());
    }
    // A broken connection makes codebox inspect the container.
    let cause = (call == EngineCall::Inspect).then_some((EngineCall::Attach, Fault::Cut(BytePosition::Body(40))));
    proxy.set_faults(&cause.into_iter().chain([(call, fault)]).collect::<Vec<_>>());
    let result = job().run().with_context(what)?;
    ensure!(!result.timed_out, "{}: timed out", what());
    ensure!(result.signal.is_none(), "{}: ended by signal {:?}", what(), result.signal);
    let stderr = result.stderr_text();
    ensure!(!stderr.contains("panicked"), "{}: panicked: {stderr}", what());
    check_report(&result.report().with_context(what)?, result.code, test_env.engine, call, fault).with_context(what)?;
    let created = proxy.calls().into_iter().filter(|one| *one == EngineCall::Create).count();
    ensure!(created <= 1, "{}: {created} containers were requested", what());
    test_env.canaries.check(&result).with_context(what)?;
    match proxy.injected_count() {
        0 => Err(anyhow::Error::new(FaultNotInjected).context(what())),
        _ => Ok(()),
    }
}

fn check_report(report: &Report, code: Option<i32>, engine: Engine, call: EngineCall, fault: Fault) -> Result<()> {
    let json = || format!("{:.700}", report.json().to_string());
    match report.kind() {
        "ok" => {
            ensure!(report.stdout() == printed() && code == Some(0), "succeeded with other output: {}", json());
            let backend = report.at("/provenance/backend").as_str().unwrap_or_default();
            ensure!(backend == engine.name(), "backend is {backend:?}");
        }
        // A silent job or half a frame may use up the whole time limit.
        "timeout_wall" if call == EngineCall::Attach && matches!(fault, Fault::Stall(_) | Fault::Corrupt(..)) => {
            ensure!(
                code == Some(124) && printed().starts_with(report.stdout()),
                "unexpected timeout report: {}",
                json()
            );
        }
        "engine_lost" | "engine_unavailable" | "image_error" => {
            ensure!(code == Some(125), "exit status is {code:?}: {}", json());
            let line = report.at("/error/message").as_str().unwrap_or_default();
            ensure!(!line.is_empty() && !line.contains('\n'), "message is not one line: {}", json());
        }
        _ => anyhow::bail!("unexpected result: {}", json()),
    }
    Ok(())
}
