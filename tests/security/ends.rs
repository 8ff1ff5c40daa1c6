//! H10: forged and unusual ends; S7: data planted in memory.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Guest, Kit, ProcessResult, Report};

use crate::Verdict;
use crate::attack::{Attack, attack, check_sound};
use crate::scenario::{Scenario, scenario};

/// Marker of 32 bytes that does not occur in memory by chance.
const MARKER: &str = "9f3ac1d27e5b80641e9d4c3b2a79f8e6d5c4b3a2918f7e6d5c4b3a29180f1e2d";
/// SHA-256 digest of the marker.
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
            .verify(|_, _, report| {
                ensure!(report.kind() == "ok", "output was parsed as a report: {}", report.kind());
                ensure!(!report.missing().contains(&"forged"), "output was parsed as a message");
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

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("A8::escapes_control_characters", escapes_control_characters).with(&["a8_escapes"]),
        scenario("H10::h10_exit", |kit, guest| check_every_mode(kit, guest, "h10_exit")).with(&["h10_exit"]),
        scenario("H10::h10_pollution", |kit, guest| check_every_mode(kit, guest, "h10_pollution"))
            .with(&["h10_pollution"]),
    ]
}

/// codebox's messages about names with terminal control characters contain no such characters.
fn escapes_control_characters(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let program = guest.hostile("a8_escapes");
    let out = canaries.grant().join("out");
    let result = kit.codebox().args(["run", "-v", "--out"]).arg(out).arg(&program).run()?;
    ensure!(result.code == Some(1), "status is {:?}: {}", result.code, result.stderr_text());
    let stderr = result.stderr_text();
    // The program's own output passes unchanged and starts a line with codebox's prefix.
    let own = stderr.lines().filter(|line| line.starts_with("codebox: ") && !line.starts_with("codebox: forged"));
    let lines: Vec<&str> = own.collect();
    for expected in ["not available here", "wrote"] {
        ensure!(
            lines.iter().any(|line| line.contains(expected) && line.contains("forge")),
            "nothing {expected}: {stderr}"
        );
    }
    for line in lines {
        ensure!(!line.contains(is_terminal_control), "message is {line:?}");
    }
    let document = kit.run_json().arg(&program).run()?;
    ensure!(check_sound(&document)?.outcome() == "exited 1", "{}", document.stdout_text());
    let text = document.stdout_text();
    ensure!(!text.trim_end().contains(char::is_control), "the document holds control characters: {text:?}");
    Ok(Verdict::Passed)
}

/// Returns true if a terminal interprets the character instead of displaying it.
fn is_terminal_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Ends in every way that the program knows and compares each outcome with the program's own list.
fn check_every_mode(kit: &Kit, guest: Guest, fixture: &str) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let (_, listed) = run_mode(kit, guest, &canaries, fixture, None)?;
    let modes: Vec<(&str, &str)> = listed.stdout().lines().filter_map(|line| line.split_once('\t')).collect();
    ensure!(modes.len() >= 20, "only {} modes are listed", modes.len());
    let mut wrong = Vec::new();
    for (mode, outcomes) in modes {
        let (result, report) =
            run_mode(kit, guest, &canaries, fixture, Some(mode)).with_context(|| format!("mode {mode:?}"))?;
        canaries.check(&result).with_context(|| format!("mode {mode:?}"))?;
        ensure!(report.stdout().starts_with("started"), "{mode:?} did not start: {}", report.json());
        if !outcomes.split(" | ").any(|outcome| outcome == report.outcome()) {
            wrong.push(format!("outcome of {mode:?} is {}, expected {outcomes}", report.outcome()));
        }
    }
    ensure!(wrong.is_empty(), "{} modes have a wrong outcome:\n{}", wrong.len(), wrong.join("\n"));
    Ok(Verdict::Passed)
}

fn run_mode(
    kit: &Kit,
    guest: Guest,
    canaries: &Canaries,
    fixture: &str,
    mode: Option<&str>,
) -> Result<(ProcessResult, Report)> {
    let run = canaries.around(kit.run_json()).args(["--timeout", "20s"]).arg(guest.hostile(fixture)).args(mode);
    let result = run.run()?;
    let report = check_sound(&result)?;
    Ok((result, report))
}
