//! R6: endless nesting, in one kind at a time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Guest, Header, Kit};

use crate::Verdict;
use crate::attack::check_sound;
use crate::scenario::{Scenario, scenario};

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("R6::r6_recursion", |kit, guest| check_every_mode(kit, guest, "r6_recursion")).with(&["r6_recursion"]),
        scenario("R6::r6_nesting", |kit, guest| check_every_mode(kit, guest, "r6_nesting")).with(&["r6_nesting"]),
        scenario("R6::r6_data", |kit, guest| check_every_mode(kit, guest, "r6_data")).with(&["r6_data"]),
        scenario("R6::r6_typescript", |kit, guest| check_every_mode(kit, guest, "r6_typescript"))
            .with(&["r6_typescript"]),
        scenario("R6::r6_console", |kit, guest| check_every_mode(kit, guest, "r6_console")).with(&["r6_console"]),
    ]
}

fn check_every_mode(kit: &Kit, guest: Guest, fixture: &str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let header = Header::of(guest, fixture)?;
    let program = guest.hostile(fixture);
    let listed = kit.run_json().arg(&program).arg("--list").run()?.report()?;
    let modes: Vec<&str> = listed.stdout().lines().collect();
    ensure!(modes.len() > 3, "only {modes:?} are listed");
    for mode in modes {
        let run = canaries.around(kit.run_json()).args(["--timeout", "2s", "--memory", "512M"]).arg(&program).arg(mode);
        let result = run.deadline(Duration::from_secs(30)).run()?;
        let report = check_sound(&result).with_context(|| format!("mode {mode}"))?;
        let outcome = report.outcome();
        ensure!(
            header.expect.contains(&outcome),
            "outcome of {mode} is {outcome}, expected one of {:?}\n{}",
            header.expect,
            report.stderr()
        );
        canaries.check(&result).with_context(|| format!("mode {mode}"))?;
    }
    Ok(Verdict::Passed)
}
