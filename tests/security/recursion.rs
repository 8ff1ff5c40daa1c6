//! R6: nesting without end, one way at a time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Header, Kit, hostile_dir};

use crate::{Compound, Verdict, attack::sound};

pub fn compound() -> Vec<Compound> {
    vec![
        ("R6::r6_recursion", vec!["r6_recursion"], |kit| every_way(kit, "r6_recursion")),
        ("R6::r6_nesting", vec!["r6_nesting"], |kit| every_way(kit, "r6_nesting")),
        ("R6::r6_data", vec!["r6_data"], |kit| every_way(kit, "r6_data")),
    ]
}

fn every_way(kit: &Kit, fixture: &str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let header = Header::of(fixture)?;
    let program = hostile_dir().join(format!("{fixture}.py"));
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
