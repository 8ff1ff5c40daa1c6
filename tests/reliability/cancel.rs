//! L2: jobs that are cancelled at any moment.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{CancelToken, Job, Outcome, Workbench};
use codebox_core::{ExecIo, LimitKind};
use codebox_testkit::{Guest, Kit, soak};

use crate::support::{check_no_leaks, job, printing, run_successfully};

/// Python programs that are cancelled in different activities.
const PYTHON: [&str; 7] = [
    "while True: pass",
    "import time\ntime.sleep(1e9)",
    "while True: open('f', 'w').write('x' * 100000)",
    "while True: print('x' * 1000)",
    "x = []\nwhile True: x.append(bytearray(1 << 16)) if len(x) < 2000 else x.clear()",
    "import os\nwhile True: os.listdir('/work'); os.urandom(1000)",
    // Loads later parts of the code.
    "import scipy.linalg, lxml.etree\nwhile True: pass",
];

/// JavaScript programs that are cancelled in different activities.
const JAVASCRIPT: [&str; 7] = [
    "for (;;);",
    "setTimeout(() => {}, 1e9)",
    "for (;;) require('fs').writeFileSync('f', 'x'.repeat(100000))",
    "for (;;) console.log('x'.repeat(1000))",
    "let x = []; for (;;) x.length < 2000 ? x.push(new Uint8Array(1 << 16).fill(1)) : (x = [])",
    "for (;;) { require('fs').readdirSync('/work'); require('crypto').randomBytes(1000) }",
    "for (;;) /(a*)*b/.exec('a'.repeat(30))",
];

/// Returns the delay and the job of a number; the delays are the same in every run and spread over 0 to 200 ms.
fn plan(guest: Guest, number: usize) -> (Duration, Job) {
    let programs = guest.choose(PYTHON, JAVASCRIPT);
    let delay = (number * 7919) % 200;
    (Duration::from_millis(delay as u64), job(guest, programs[number % programs.len()], Duration::from_secs(30)))
}

pub fn by_dropping(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let run = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let (delay, job) = plan(guest, number);
            let ended = executor.block_on(async { tokio::time::timeout(delay, runner.run_async(&job)).await });
            if let Ok(report) = ended {
                let outcome = report?.outcome;
                // Before its deadline, only a limit of its own can end such a program.
                ensure!(matches!(outcome, Outcome::LimitHit(_)), "job {number} ended as {outcome:?}");
            }
        }
        Ok(())
    };
    run(0..12)?;
    check_no_leaks(kit, || run(0..soak().of(40, 5000)))?;
    run_successfully(runner, printing(guest, 1)).map(drop)
}

/// Runs a computing guest on an executor with one thread, and counts the turns that another task gets meanwhile.
pub fn beside_other_tasks(runner: &Workbench, _: &Kit, guest: Guest) -> Result<()> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let job = job(guest, guest.choose(PYTHON[0], JAVASCRIPT[0]), Duration::from_secs(1));
    let turns = AtomicU32::new(0);
    let count = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            turns.fetch_add(1, Ordering::Relaxed);
        }
    };
    let report = executor.block_on(async {
        tokio::select! {
            report = runner.run_async(&job) => report,
            () = count => unreachable!("the task counts for ever"),
        }
    })?;
    ensure!(report.outcome == Outcome::LimitHit(LimitKind::Wall), "{:?}", report.outcome);
    let turns = turns.into_inner();
    ensure!(turns > 10, "another task of the thread had only {turns} turns in a second");
    Ok(())
}

pub fn by_token(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    let run = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let (delay, job) = plan(guest, number);
            let token = CancelToken::new();
            let mut io = ExecIo { cancel: token.clone(), ..ExecIo::none() };
            let canceller = std::thread::spawn(move || {
                std::thread::sleep(delay);
                token.cancel();
            });
            let report = runner.run_with(&job, &mut io)?;
            ensure!(canceller.join().is_ok(), "the cancelling thread panicked");
            let is_expected = matches!(report.outcome, Outcome::Cancelled | Outcome::LimitHit(_));
            ensure!(is_expected, "job {number} ended as {:?}", report.outcome);
            let delay_after_cancel = report.usage.wall.saturating_sub(delay);
            ensure!(delay_after_cancel < Duration::from_secs(1), "job {number} continued for {delay_after_cancel:?}");
        }
        Ok(())
    };
    // Short-lived threads leave allocator arenas behind, but only the first few of them.
    run(0..40)?;
    check_no_leaks(kit, || run(0..soak().of(40, 5000)))?;
    run_successfully(runner, printing(guest, 1)).map(drop)
}
