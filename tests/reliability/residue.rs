//! S7: memory of a job does not contain data of an earlier job.

use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, Outcome, Workbench};
use codebox_testkit::{Guest, Kit, soak};

use crate::marker_programs::{DIGEST, PLANT, SEARCH};
use crate::support::{JOB_TIMEOUT, hostile, job, run_successfully, text, with_memory_limit};

/// Number of rounds with one planting and one searching job in the long form.
const ROUNDS: usize = 1000;

/// Returns a marker that differs in every round and does not occur in any program text.
fn marker(round: usize) -> [u8; 32] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (round as u64).wrapping_mul(0xd134_2543_de82_ef95);
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs rounds of planting, comparing the idle memory with its image byte by byte, and searching.
pub fn planted_bytes_are_cleared(runner: &Workbench, _kit: &Kit, guest: Guest) -> Result<()> {
    let rounds = soak().of(300, ROUNDS);
    for round in 0..rounds {
        let marker = marker(round);
        let mut planting = job(guest, guest.choose(PLANT[0], PLANT[1]), JOB_TIMEOUT);
        planting.args = vec![hex(&marker)];
        let planted = run_successfully(runner, planting)?;
        ensure!(planted.stdout.bytes().as_ref() == b"planted\n", "round {round}: nothing was planted");
        if round % soak().of(20, 1) == 0 {
            ensure!(runner.backend().idle_regions_are_clean(), "round {round}: idle memory differs from its image");
        }
        let mut search_job = job(guest, guest.choose(SEARCH[0], SEARCH[1]), JOB_TIMEOUT);
        // The argument is reversed, so that the searching job does not find it in its own memory.
        search_job.args = vec![hex(&marker[..12].iter().rev().copied().collect::<Vec<_>>())];
        let search_report = run_successfully(runner, search_job)?;
        ensure!(
            search_report.stdout.bytes().as_ref() == b"[]\n",
            "round {round}: {}",
            text(&search_report.stdout.bytes())
        );
    }
    let counts = runner.backend().region_counts(guest.name());
    ensure!(counts.is_some_and(|(_, reused)| reused >= rounds as u64), "regions were not reused: {counts:?}");
    Ok(())
}

/// Runs the thorough planting and searching programs of the fixtures after every kind of end.
pub fn cleared_after_every_end(runner: &Workbench, _kit: &Kit, guest: Guest) -> Result<()> {
    for (round, end) in ["exit", "exception", "spin", "memory"].into_iter().cycle().take(soak().of(8, 200)).enumerate()
    {
        let marker = marker(ROUNDS + round);
        let wall = Duration::from_millis(if end == "spin" { 2500 } else { 20_000 });
        let plant = hostile(guest, "s7_plant", &[&hex(&marker), end], wall)?;
        let planted = runner.run(with_memory_limit(plant, ByteSize::mib(384)))?;
        let expected = match end {
            "exit" => matches!(planted.outcome, Outcome::Exited(0)),
            "exception" => matches!(planted.outcome, Outcome::Exited(1)),
            _ => matches!(planted.outcome, Outcome::LimitHit(_)),
        };
        ensure!(expected, "{end} ended as {:?}", planted.outcome);
        ensure!(runner.backend().idle_regions_are_clean(), "after {end} idle memory differs from its image");
        let digest = run_successfully(runner, digest_job(guest, &marker))?;
        let digest = text(&digest.stdout.bytes()).trim().to_owned();
        let search_report = run_successfully(
            runner,
            hostile(guest, "s7_search", &[&hex(&marker[..8]), &digest], Duration::from_secs(60))?,
        )?;
        let output = text(&search_report.stdout.bytes());
        ensure!(!output.contains("ESCAPE"), "after {end}: {output}");
    }
    let checks = runner.backend().reset_checks();
    ensure!(checks.verified > 0, "no reset was verified");
    Ok(())
}

/// Returns a job that computes the digest, because the searching job must not know the marker itself.
fn digest_job(guest: Guest, marker: &[u8; 32]) -> codebox::Job {
    let mut job = job(guest, guest.choose(DIGEST[0], DIGEST[1]), JOB_TIMEOUT);
    let reversed: Vec<u8> = marker.iter().rev().copied().collect();
    job.args = vec![hex(&reversed)];
    job
}
