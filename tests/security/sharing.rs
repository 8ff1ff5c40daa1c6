//! Attacks that another job of the same moment must not feel.

use std::thread;

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Kit};

use crate::attack::attack;
use crate::{Compound, Verdict};

pub fn compound() -> Vec<Compound> {
    vec![
        ("R1::r1_spin::beside_others", vec!["r1_spin"], |kit| beside(kit, "r1_spin")),
        ("F14::f14_fds::beside_others", vec!["f14_fds"], |kit| beside(kit, "f14_fds")),
        ("H9::h9_corrupt::beside_others", vec!["h9_corrupt"], |kit| beside(kit, "h9_corrupt")),
        ("S4::many_starts_at_once", Vec::new(), many_starts),
    ]
}

/// Runs small jobs while the attack goes on.
fn beside(kit: &Kit, fixture: &'static str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    thread::scope(|scope| {
        let attacking = scope.spawn(|| attack(fixture).options(&["--timeout", "2s"]).run_among(kit, &canaries));
        for number in 0..20 {
            let ran = kit.run_json().args(["-c", &format!("print({number})")]).run()?;
            let report = ran.report()?;
            ensure!(report.stdout() == format!("{number}\n"), "job {number}: {}", report.json());
        }
        attacking.join().map_err(|_| anyhow::anyhow!("the attack's thread panicked"))?.map(|_| Verdict::Held)
    })
}

/// Processes that start at one moment do not take each other's directories for those of dead ones.
fn many_starts(kit: &Kit) -> Result<Verdict> {
    let starter = || -> Result<()> {
        for number in 0..20 {
            let report = kit.run_json().args(["-c", "print(1)"]).run()?.report()?;
            ensure!(report.stdout() == "1\n", "start {number}: {}", report.json());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let starters: Vec<_> = (0..12).map(|_| scope.spawn(starter)).collect();
        for starter in starters {
            starter.join().map_err(|_| anyhow::anyhow!("a starter's thread panicked"))??;
        }
        Ok(Verdict::Held)
    })
}
