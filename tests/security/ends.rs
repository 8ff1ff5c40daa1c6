//! H10: forged and odd ends; S7: what is planted in memory.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Kit};

use crate::attack::{Attack, attack};
use crate::{Compound, Verdict};

/// 32 bytes that no memory holds by chance.
const MARKER: &str = "9f3ac1d27e5b80641e9d4c3b2a79f8e6d5c4b3a2918f7e6d5c4b3a29180f1e2d";
/// Their sha256.
const MARKER_SHA256: &str = "f7fcc475b7ceafd113a7dbb1e9cead00725ade5c4851930b2bb381bc9b346ffb";

pub fn attacks() -> Vec<Attack> {
    let mut attacks = vec![
        attack("h10_forge")
            .arg("{\"version\":1,\"success\":false}")
            .arg("<codebox>")
            .arg("_codebox")
            .arg("{\"op\":\"error\"}")
            .arg("{\"op\":\"missing\",\"what\":\"forged\"}")
            .options(&["--timeout", "20s"])
            .look(|_, _, report| {
                ensure!(report.kind() == "ok", "its output was taken for a report: {}", report.kind());
                ensure!(!report.missing().contains(&"forged"), "its output was taken for a message");
                Ok(())
            }),
        attack("s7_search").arg(&MARKER[..16]).arg(MARKER_SHA256).options(&["--timeout", "20s"]),
    ];
    for (end, outcome) in [("exit", "exited 0"), ("exception", "exited 1"), ("spin", "limit wall")] {
        let plant = attack("s7_plant").arg(MARKER).arg(end).variant(end);
        attacks.push(plant.options(&["--timeout", "4s", "--memory", "1G"]).expect(outcome));
    }
    let memory = attack("s7_plant").arg(MARKER).arg("memory").variant("memory");
    attacks.push(memory.options(&["--timeout", "20s", "--memory", "256M"]).expect("limit memory"));
    attacks
}

pub fn compound() -> Vec<Compound> {
    vec![("H10::h10_exit", vec!["h10_exit"], every_way)]
}

/// Ends in every way that the program knows, each with the status that it lists for it.
fn every_way(kit: &Kit) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let (_, listed) = attack("h10_exit").expect("exited 0").run_among(kit, &canaries)?;
    let ways: Vec<(String, String)> = listed
        .stdout()
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(way, status)| (way.to_owned(), status.to_owned()))
        .collect();
    ensure!(ways.len() >= 20, "only {} ways are listed", ways.len());
    for (way, status) in ways {
        let outcomes = match way.as_str() {
            // Without signals an abort can only trap, and a status past a byte is refused by the interface.
            "abort" | "os._exit big" => vec![format!("exited {status}"), "trapped other".to_owned()],
            _ => vec![format!("exited {status}")],
        };
        let (_, report) = one_way(kit, &canaries, &way).with_context(|| format!("way {way:?}"))?;
        ensure!(outcomes.contains(&report.outcome()), "{way:?} is {} and none of {outcomes:?}", report.outcome());
    }
    Ok(Verdict::Held)
}

fn one_way(kit: &Kit, canaries: &Canaries, way: &str) -> Result<(codebox_testkit::Ran, codebox_testkit::Report)> {
    let run = canaries.around(kit.run_json()).arg(codebox_testkit::hostile_dir().join("h10_exit.py")).arg(way);
    let ran = run.run()?;
    let report = crate::attack::sound(&ran)?;
    canaries.check(&ran)?;
    Ok((ran, report))
}
