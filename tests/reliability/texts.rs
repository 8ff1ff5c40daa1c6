//! L9: texts that are hostile to parsers, in jobs of a process that also runs others.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox::{ByteSize, Job, Language, Source, Workbench};
use codebox_testkit::{Guest, Kit};

use crate::support::{check_no_leaks, job, printing, run_successfully, with_memory_limit};

/// Maximum growth in bytes of this process's memory while one text is parsed and its job runs; the job itself has 64
/// MiB.
const GROWTH: u64 = 96 << 20;

/// Other jobs continue beside hostile texts, this process grows little, and no resources remain.
pub fn beside_others(runner: &Workbench, kit: &Kit) -> Result<()> {
    let texts = [
        format!("export{{{}}}", "a,".repeat(65_537)),
        format!("export{{{}}}", "a,".repeat(240_000)),
        format!("let x: number = {}1", "1+".repeat(240_000)),
        format!("({}c{})", "({a=b as ".repeat(60), ":0)=>0}:0)=>0".repeat(60)),
    ];
    let typed = |text: &String| {
        let job = job(Guest::JavaScript, "", Duration::from_secs(60));
        Job { source: Source::Inline(text.clone()), language: Language::TypeScript, ..job }
    };
    let typed = |text: &String| with_memory_limit(typed(text), ByteSize::mib(64));
    // The first round starts all shared resources and as many analyzers as will be needed.
    run_beside_harmless_jobs(runner, &texts.each_ref().map(typed))?;
    check_no_leaks(kit, || {
        for text in &texts {
            let before = reset_peak_memory()?;
            let report = runner.run(typed(text))?;
            ensure!(!report.is_success() || text.starts_with("let"), "outcome is {:?}", report.outcome);
            let grown = peak_memory()?.saturating_sub(before);
            ensure!(grown <= GROWTH, "{} MiB more for {:.20}", grown >> 20, text);
        }
        run_beside_harmless_jobs(runner, &texts.each_ref().map(typed))
    })
}

/// Runs the jobs concurrently, beside harmless ones that must succeed.
fn run_beside_harmless_jobs(runner: &Workbench, jobs: &[Job]) -> Result<()> {
    std::thread::scope(|scope| {
        let hostile: Vec<_> = jobs.iter().map(|job| scope.spawn(|| runner.run(job.clone()))).collect();
        for number in 0..10 {
            for guest in Guest::ALL {
                run_successfully(runner, printing(guest, number))?;
            }
            let imports = job(Guest::Python, "import json\nprint(json.dumps(1))", Duration::from_secs(60));
            run_successfully(runner, imports)?;
        }
        for job in hostile {
            job.join().map_err(|_| anyhow::anyhow!("a job's thread panicked"))??;
        }
        Ok(())
    })
}

/// Returns the resident memory and resets the peak.
fn reset_peak_memory() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    peak_memory()
}

/// Returns the peak resident memory.
fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a field of the kernel's")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
}
