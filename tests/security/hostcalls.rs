//! H: host calls and the information that they reveal.

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Input, ProcessResult, Report};

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
            .verify(counts_all_input),
        attack("h4_random").options(&["--memory", "512M"]).verify(uses_few_resources),
        attack("h6_close").options(&["--timeout", "20s"]),
        attack("h7_environment").arg("--marker").options(&["--timeout", "20s"]).verify(reveals_no_host_data),
        attack("h8_sockets")
            .canary_arg(CanaryArg::Port)
            .options(&["--timeout", "20s"])
            .verify(|canaries, _, _| canaries.check_host()),
    ];
    attacks.extend(
        ["sleep", "async", "stubborn", "tiny"].map(|mode| attack("h1_sleep").with(mode).verify(uses_few_resources)),
    );
    attacks.extend(
        ["poll", "select", "many", "huge"]
            .map(|mode| attack("h1_poll").with(mode).input(Input::Silent).verify(uses_few_resources)),
    );
    let calls = ["clock", "random", "readdir", "sync", "missing", "stat", "seek", "create", "argv"];
    attacks.extend(calls.map(|call| attack("h4_calls").with(call).verify(uses_few_resources)));
    for seed in ["1", "2", "3", "4"] {
        attacks.push(attack("h9_corrupt").with(seed).options(&["--timeout", "2s", "--memory", "256M"]));
    }
    attacks
}

fn counts_all_input(canaries: &Canaries, result: &ProcessResult, report: &Report) -> Result<()> {
    uses_few_resources(canaries, result, report)?;
    let counted = report.lines().iter().any(|line| line["bytes"] == INPUT);
    ensure!(counted, "the input is incomplete");
    Ok(())
}

/// A guest that only waits or makes calls needs few threads and little memory of the host.
fn uses_few_resources(_: &Canaries, result: &ProcessResult, _: &Report) -> Result<()> {
    ensure!(result.peak_threads < 64, "codebox has {} threads", result.peak_threads);
    ensure!(result.peak_rss < 512 << 20, "{} MiB were resident", result.peak_rss >> 20);
    Ok(())
}

/// The guest's description of its environment contains no data of this machine.
fn reveals_no_host_data(canaries: &Canaries, _: &ProcessResult, report: &Report) -> Result<()> {
    let output = report.stdout();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let grant_path = canaries.grant().display().to_string();
    for (what, text) in [("the host's name", host.trim()), ("a granted directory's place", &grant_path)] {
        ensure!(text.len() < 4 || !output.contains(text), "{what} is visible");
    }
    ensure!(!output.contains("CODEBOX_"), "a variable of codebox is visible");
    Ok(())
}
