//! L12: an engine's socket that disconnects, stalls or sends corrupt data, at each call of a job.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use codebox_testkit::{EngineCall, Fault, Report, Soak, Spot, soak};

use crate::chance::Chance;
use crate::engine::Engine;
use crate::ground::Ground;
use crate::many::many;
use crate::proxied::{proxy, reconciled, through};
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![row("L12::each_call", each_call), row("L12::any_byte", any_byte), row("L12::frozen", frozen)]
}

/// Deadline far above codebox's timeouts for an engine: only a hanging run reaches it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Concurrency of runs that wait for a stalled engine, which cost nothing while they wait.
const WAITING: usize = 12;

/// Concurrency of other runs. Each queries its engine for the first time, which costs one engine a second of CPU time.
const WORKING: usize = 2;

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
        EngineCall::Ping | EngineCall::Start | EngineCall::Remove => Fault::Corrupt(Spot::Answer(9), 1),
        // Kind of the agent's first message.
        EngineCall::Attach => Fault::Corrupt(Spot::Body(8), 1),
        _ => Fault::Corrupt(Spot::Body(12), 1),
    }
}

fn each_call(ground: &Ground) -> Result<()> {
    let cases: Vec<(EngineCall, Fault)> = CALLS
        .into_iter()
        .flat_map(|call| {
            let faults = [Fault::Stall(Spot::Answer(0)), Fault::CutBefore, Fault::Cut(Spot::Answer(20)), corrupt(call)];
            faults.map(|fault| (call, fault))
        })
        .collect();
    side_by_side(cases, |(call, fault)| tried(ground, *call, *fault))?;
    reconciled(ground)
}

/// Tries the stalling faults alongside the others.
fn side_by_side(
    cases: Vec<(EngineCall, Fault)>,
    tried: impl Fn(&(EngineCall, Fault)) -> Result<()> + Sync,
) -> Result<()> {
    let (silent, loud): (Vec<_>, Vec<_>) = cases.into_iter().partition(|(_, fault)| matches!(fault, Fault::Stall(_)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| many(WAITING, &silent, &tried));
        let worked = many(WORKING, &loud, &tried);
        waiting.join().map_err(|_| anyhow!("a thread of the test panicked"))??;
        worked.map(drop)
    })
}

/// An engine that stalls for good during a job: the outcome of the job is unknown, so the report is not a timeout, and
/// it contains the output so far.
fn frozen(ground: &Ground) -> Result<()> {
    let proxy = proxy(ground.engine)?;
    let run = || through(&proxy, ground.engine, ground.run()).deadline(PATIENCE);
    let job = |timeout| run().args(["--timeout", timeout, "--lang", "python", "-c", FROZEN]);
    // An engine that was probed before receives no further queries.
    let first = run().args(["--lang", "python", "-c", "print(1)"]).run()?;
    ensure!(first.code == Some(0), "without a fault: {} {}", first.stdout_text(), first.stderr_text());
    let silent = Fault::Stall(Spot::Answer(0));
    let calls = [EngineCall::Inspect, EngineCall::Remove, EngineCall::List, EngineCall::Other];
    let attached = (EngineCall::Attach, Fault::Stall(Spot::Body(400)));
    proxy.fail(&calls.map(|call| (call, silent)).into_iter().chain([attached]).collect::<Vec<_>>());
    let ran = job("3s").run()?;
    ensure!(!ran.hung && ran.code == Some(125), "it ended with {:?}: {}", ran.code, ran.stderr_text());
    let report = ran.report()?;
    ensure!(report.kind() == "engine_lost", "it is told as {}", report.json());
    let printed = report.at("/partial/stdout").as_str().unwrap_or_default();
    ensure!(printed.starts_with("line 0\nline 1\n"), "what it had printed is {}", report.json());
    reconciled(ground)
}

const FROZEN: &str =
    "import time\nfor n in range(99):\n    print('line', n, flush=True)\n    time.sleep(0.005)\ntime.sleep(600)";

/// Any fault at any byte. In the attached stream only the first bytes count, which are framing of the engine and the
/// agent; a changed letter of a job's output is not detectable.
fn any_byte(ground: &Ground) -> Result<()> {
    let mut chance = Chance::new();
    let seed = chance.seed();
    let mut cases = Vec::new();
    for _ in 0..soak().of(12, 300) {
        let call = chance.one(&CALLS);
        let far = if call == EngineCall::Attach { 31 } else { 120 };
        let at = usize::try_from(chance.below(far))?;
        let spot = if chance.below(3) > 0 { Spot::Body(at) } else { Spot::Answer(at) };
        // With its highest bit set, no byte is an ASCII character.
        let bits = u8::try_from(chance.below(128))? | 128;
        let all = [Fault::CutBefore, Fault::Cut(spot), Fault::Corrupt(spot, bits), Fault::Stall(spot)];
        // A stall takes most of a minute, and `each_call` tries a stall of each call.
        let fault = chance.one(if soak() == Soak::Long { &all } else { &all[..3] });
        cases.push((call, fault));
    }
    let tried = |(call, fault): &(EngineCall, Fault)| match tried(ground, *call, *fault) {
        // The response is shorter than the position of the fault.
        Err(error) if error.is::<NeverStruck>() => Ok(()),
        other => other,
    };
    side_by_side(cases, tried).with_context(|| format!("seed {seed}"))?;
    reconciled(ground)
}

/// Error of a trial whose fault was not injected.
#[derive(Debug)]
struct NeverStruck;

impl std::fmt::Display for NeverStruck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fault never struck")
    }
}

impl std::error::Error for NeverStruck {}

/// Runs a job with a fault. codebox ends and either reports the fault or gives a correct result.
fn tried(ground: &Ground, call: EngineCall, fault: Fault) -> Result<()> {
    let what = || format!("{call:?} {fault:?}");
    let proxy = proxy(ground.engine)?;
    let run = || through(&proxy, ground.engine, ground.run()).deadline(PATIENCE);
    let job = || run().args(["--timeout", "10s", "--lang", "python", "-c", PROGRAM]);
    if call == EngineCall::Ping {
        // Only an engine that was probed before receives nothing but a ping.
        let first = job().run()?;
        ensure!(first.code == Some(0), "without a fault: {} {}", first.stdout_text(), first.stderr_text());
    }
    // A broken connection makes codebox inspect the container.
    let cause = (call == EngineCall::Inspect).then_some((EngineCall::Attach, Fault::Cut(Spot::Body(40))));
    proxy.fail(&cause.into_iter().chain([(call, fault)]).collect::<Vec<_>>());
    let ran = job().run().with_context(what)?;
    ensure!(!ran.hung, "{}: it hung", what());
    ensure!(ran.signal.is_none(), "{}: it was ended by signal {:?}", what(), ran.signal);
    let said = ran.stderr_text();
    ensure!(!said.contains("panicked"), "{}: it panicked: {said}", what());
    told(&ran.report().with_context(what)?, ran.code, ground.engine, (call, fault)).with_context(what)?;
    let made = proxy.calls().into_iter().filter(|one| *one == EngineCall::Create).count();
    ensure!(made <= 1, "{}: {made} containers were asked for", what());
    ground.canaries.check(&ran).with_context(what)?;
    match proxy.struck() {
        0 => Err(anyhow::Error::new(NeverStruck).context(what())),
        _ => Ok(()),
    }
}

fn told(report: &Report, code: Option<i32>, engine: Engine, (call, fault): (EngineCall, Fault)) -> Result<()> {
    let json = || format!("{:.700}", report.json().to_string());
    match report.kind() {
        "ok" => {
            ensure!(report.stdout() == printed() && code == Some(0), "it succeeded with something else: {}", json());
            let by = report.at("/provenance/backend").as_str().unwrap_or_default();
            ensure!(by == engine.name(), "it ran with {by:?}");
        }
        // A silent job or half a frame may use up the whole time limit.
        "timeout_wall" if call == EngineCall::Attach && matches!(fault, Fault::Stall(_) | Fault::Corrupt(..)) => {
            ensure!(code == Some(124) && printed().starts_with(report.stdout()), "it had another end: {}", json());
        }
        "engine_lost" | "engine_unavailable" | "image_error" => {
            ensure!(code == Some(125), "it ended with {code:?}: {}", json());
            let line = report.at("/error/message").as_str().unwrap_or_default();
            ensure!(!line.is_empty() && !line.contains('\n'), "it is not one line: {}", json());
        }
        _ => anyhow::bail!("it ended as {}", json()),
    }
    Ok(())
}
