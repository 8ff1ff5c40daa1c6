//! R: processor, memory, stack and output.

use anyhow::{Result, ensure};
use codebox_testkit::{Canaries, Guest, ProcessResult, Report};

use crate::attack::{Attack, attack};

/// Resident memory of codebox in bytes in addition to a guest's own: code pages, tables and stacks.
const HOST_OVERHEAD: u64 = 160 << 20;

pub fn attacks() -> Vec<Attack> {
    let mut attacks = vec![
        attack("r1_spin").expect("limit wall"),
        attack("r1_swallow").expect("limit wall"),
        attack("r7_stack_hostcall").options(&["--timeout", "20s"]),
        attack("r9_empty_writes"),
    ];
    for fixture in ["r2_digits", "r2_find", "r2_power", "r2_regex", "r2_sort", "r2_sum"] {
        attacks.push(attack(fixture).options(&["--timeout", "1s", "--memory", "512M"]));
    }
    for mode in ["nested", "overlapping", "lookbehind", "backreference", "split", "replace", "sticky"] {
        attacks.push(attack("r2_regex").with(mode).only(Guest::JavaScript));
    }
    for mode in [
        "microtasks",
        "ticks",
        "immediates",
        "timers",
        "awaits",
        "thenables",
        "both",
        "generators",
        "rejections",
        "exit",
    ] {
        attacks.push(attack("r1_loops").with(mode).options(&["--memory", "256M"]).verify(within_memory));
    }
    for mode in ["strings", "map", "closures", "promises", "symbols", "properties", "timers"] {
        let filling_attack = attack("r3_objects").with(mode).only(Guest::JavaScript);
        attacks.push(filling_attack.options(&["--timeout", "20s", "--memory", "256M"]).verify(within_memory));
    }
    for (fixture, timeout) in [
        ("r3_bytearray", "30s"),
        ("r3_growth", "10s"),
        ("r3_objects", "10s"),
        ("r3_stubborn", "10s"),
        ("r3_zero", "10s"),
    ] {
        attacks.push(attack(fixture).options(&["--timeout", timeout, "--memory", "256M"]).verify(within_memory));
    }
    for fixture in [
        "r8_flood_alternate",
        "r8_flood_bytes",
        "r8_flood_catch",
        "r8_flood_lines",
        "r8_flood_no_newline",
        "r8_flood_single",
    ] {
        let limits = &["--timeout", "6s", "--max-output", "1M", "--memory", "256M"];
        attacks.push(attack(fixture).options(limits).verify(bounded_output));
    }
    attacks
}

fn within_memory(_: &Canaries, result: &ProcessResult, _: &Report) -> Result<()> {
    let max = (256 << 20) + HOST_OVERHEAD;
    ensure!(result.peak_rss <= max, "{} MiB were resident", result.peak_rss >> 20);
    Ok(())
}

fn bounded_output(canaries: &Canaries, result: &ProcessResult, report: &Report) -> Result<()> {
    within_memory(canaries, result, report)?;
    for stream in ["stdout", "stderr"] {
        let kept = report.at(&format!("/{stream}")).as_str().unwrap_or_default().len();
        ensure!(kept <= (1 << 20) + 4096, "{kept} bytes of {stream} were kept");
    }
    if report.kind() == "output_limit" {
        let dropped =
            ["stdout", "stderr"].map(|stream| report.at(&format!("/{stream}_truncated/dropped_bytes")).as_u64());
        ensure!(dropped.iter().flatten().sum::<u64>() > 0, "the report does not mention dropped output");
    }
    Ok(())
}
