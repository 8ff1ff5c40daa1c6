//! R6: endless nesting, in one kind at a time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Guest, Header, Kit};

use crate::Verdict;
use crate::attack::sound;
use crate::compound::{Compound, compound};

pub fn trials() -> Vec<Compound> {
    vec![
        compound("R6::r6_recursion", |kit, guest| every_way(kit, guest, "r6_recursion")).with(&["r6_recursion"]),
        compound("R6::r6_nesting", |kit, guest| every_way(kit, guest, "r6_nesting")).with(&["r6_nesting"]),
        compound("R6::r6_data", |kit, guest| every_way(kit, guest, "r6_data")).with(&["r6_data"]),
        compound("R6::r6_typescript", |kit, guest| every_way(kit, guest, "r6_typescript")).with(&["r6_typescript"]),
        compound("R6::r6_console", |kit, guest| every_way(kit, guest, "r6_console")).with(&["r6_console"]),
    ]
}

fn every_way(kit: &Kit, guest: Guest, fixture: &str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let header = Header::of(guest, fixture)?;
    let program = guest.hostile(fixture);
    let listed = kit.run_json().arg(&program).arg("--list").run()?.report()?;
    let ways: Vec<&str> = listed.stdout().lines().collect();
    ensure!(ways.len() > 3, "only {ways:?} are listed");
    for way in ways {
        let run = canaries.around(kit.run_json()).args(["--timeout", "2s", "--memory", "512M"]).arg(&program).arg(way);
        let ran = run.deadline(Duration::from_secs(30)).run()?;
        let report = sound(&ran).with_context(|| format!("way {way}"))?;
        let outcome = report.outcome();
        ensure!(
            header.expect.contains(&outcome),
            "{way} is {outcome} and none of {:?}\n{}",
            header.expect,
            report.stderr()
        );
        canaries.check(&ran).with_context(|| format!("way {way}"))?;
    }
    Ok(Verdict::Held)
}
