//! Attacks that must not affect concurrent jobs.

use std::thread;

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Guest, Kit};

use crate::Verdict;
use crate::attack::attack;
use crate::scenario::{Scenario, scenario};

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("R1::r1_spin::beside_others", |kit, guest| run_beside_small_jobs(kit, guest, "r1_spin"))
            .with(&["r1_spin"]),
        scenario("F14::f14_fds::beside_others", |kit, guest| run_beside_small_jobs(kit, guest, "f14_fds"))
            .with(&["f14_fds"]),
        scenario("H9::h9_corrupt::beside_others", |kit, guest| run_beside_small_jobs(kit, guest, "h9_corrupt"))
            .with(&["h9_corrupt"]),
        scenario("S4::concurrent_starts", concurrent_starts),
    ]
}

/// Runs small jobs of every language during the attack.
fn run_beside_small_jobs(kit: &Kit, guest: Guest, fixture: &'static str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    thread::scope(|scope| {
        let attacking =
            scope.spawn(|| attack(fixture).options(&["--timeout", "2s"]).run_with_canaries(kit, guest, &canaries));
        for number in 0..20 {
            let other = Guest::ALL[number % Guest::ALL.len()];
            let result = kit.run_json().args(other.printing(number)).run()?;
            let report = result.report()?;
            ensure!(report.stdout() == format!("{number}\n"), "job {number}: {}", report.json());
        }
        attacking.join().map_err(|_| anyhow::anyhow!("the attack's thread panicked"))?.map(|_| Verdict::Passed)
    })
}

/// Processes that start at the same moment do not mistake each other's directories for those of dead processes.
fn concurrent_starts(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let starter = || -> Result<()> {
        for number in 0..20 {
            let report = kit.run_json().args(guest.printing(1)).run()?.report()?;
            ensure!(report.stdout() == "1\n", "start {number}: {}", report.json());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let starters: Vec<_> = (0..12).map(|_| scope.spawn(starter)).collect();
        for starter in starters {
            starter.join().map_err(|_| anyhow::anyhow!("a starter's thread panicked"))??;
        }
        Ok(Verdict::Passed)
    })
}
