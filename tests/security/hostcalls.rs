//! H: host calls and the information that they reveal.

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Input, Ran, Report};

use crate::attack::{Attack, CanaryArg, attack};

/// Number of input bytes for a guest that only counts them.
const INPUT: u64 = 256 << 20;

pub fn attacks() -> Vec<Attack> {
    let mut attacks = vec![
        attack("h3_input").variant("none").expect("exited 0"),
        attack("h3_input").variant("silent").input(Input::Silent).expect("limit wall"),
        attack("h3_input")
            .with("count")
            .variant("large")
            .input(Input::Zeroes(INPUT))
            .options(&["--timeout", "30s"])
            .expect("exited 0")
            .look(all_was_counted),
        attack("h4_random").options(&["--memory", "512M"]).look(modest),
        attack("h6_close").options(&["--timeout", "20s"]),
        attack("h7_environment").arg("--marker").options(&["--timeout", "20s"]).look(knows_nothing),
        attack("h8_sockets")
            .canary_arg(CanaryArg::Port)
            .options(&["--timeout", "20s"])
            .look(|canaries, _, _| canaries.check_host()),
    ];
    attacks.extend(["sleep", "async", "stubborn", "tiny"].map(|way| attack("h1_sleep").with(way).look(modest)));
    attacks.extend(
        ["poll", "select", "many", "huge"].map(|way| attack("h1_poll").with(way).input(Input::Silent).look(modest)),
    );
    let calls = ["clock", "random", "readdir", "sync", "missing", "stat", "seek", "create", "argv"];
    attacks.extend(calls.map(|call| attack("h4_calls").with(call).look(modest)));
    for seed in ["1", "2", "3", "4"] {
        attacks.push(attack("h9_corrupt").with(seed).options(&["--timeout", "2s", "--memory", "256M"]));
    }
    attacks
}

fn all_was_counted(canaries: &Canaries, ran: &Ran, report: &Report) -> Result<()> {
    modest(canaries, ran, report)?;
    let counted = report.lines().iter().any(|line| line["bytes"] == INPUT);
    ensure!(counted, "not all of the input came");
    Ok(())
}

/// A guest that only waits or makes calls needs few threads and little memory of the host.
fn modest(_: &Canaries, ran: &Ran, _: &Report) -> Result<()> {
    ensure!(ran.peak_threads < 64, "it had {} threads", ran.peak_threads);
    ensure!(ran.peak_rss < 512 << 20, "{} MiB were resident", ran.peak_rss >> 20);
    Ok(())
}

/// The guest's description of its environment contains no data of this machine.
fn knows_nothing(canaries: &Canaries, _: &Ran, report: &Report) -> Result<()> {
    let told = report.stdout();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let place = canaries.grant().display().to_string();
    for (what, text) in [("the host's name", host.trim()), ("a granted directory's place", &place)] {
        ensure!(text.len() < 4 || !told.contains(text), "{what} shows");
    }
    ensure!(!told.contains("CODEBOX_"), "a variable of codebox's own shows");
    Ok(())
}
