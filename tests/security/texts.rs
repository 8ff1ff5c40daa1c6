//! R6: program texts that are hostile to parsers, before and during their run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::{Canaries, Guest, Kit};

use crate::Verdict;
use crate::attack::check_sound;
use crate::scenario::{Scenario, scenario};
use crate::tampering::with_copied_home;

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("R6::survives_hostile_sources", survives_hostile_sources).only(Guest::JavaScript),
        scenario("R6::counts_parsing_as_cpu_time", counts_parsing_as_cpu_time).only(Guest::JavaScript),
        scenario("R6::rejects_replaced_analyzer", rejects_replaced_analyzer).only(Guest::Python),
    ]
}

/// Returns file names and texts.
fn hostile_sources() -> Vec<(&'static str, String)> {
    let nested = |open: &str, close: &str, levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
    vec![
        ("exports.ts", format!("export{{{}}}", "a,".repeat(65_537))),
        ("more.mts", format!("export{{{}}}", "a,".repeat(240_000))),
        ("twice.ts", format!("({})", nested("({a=b as ", ":0)=>0}:0)=>0", 60))),
        ("chain.ts", format!("let a = {}1", "1+".repeat(240_000))),
        ("chain.mjs", format!("import 'fs'; let a = {}1", "a=>".repeat(160_000))),
        ("brackets.js", format!("import 'fs'; {}", "[".repeat(400_000))),
        ("recovers.py", format!("import os\n{}", "lambda \n".repeat(30_000))),
        ("wide.py", format!("import os\nx = [{}]", "{},".repeat(80_000))),
        ("deep.py", format!("import os\nx = {}", nested("[", "]", 90_000))),
        ("guessed", format!("import os\nconsole.log(1)\n{}", "lambda \n".repeat(30_000))),
    ]
}

/// Each text is run and explained, and codebox ends by itself and reports the result.
fn survives_hostile_sources(kit: &Kit, _: Guest) -> Result<Verdict> {
    let folder = kit.folder()?;
    let canaries = Canaries::plant(kit)?;
    for (name, text) in hostile_sources() {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        let run = canaries.around(kit.run_json()).args(["--memory", "64M", "--timeout", "20s"]);
        let result = run.arg(&path).run()?;
        let report = check_sound(&result).with_context(|| format!("run {name}"))?;
        ensure!(report.outcome() != "exited 0" || !name.starts_with("exports"), "{name}: {}", report.outcome());
        let explained = kit.codebox().args(["explain", "--memory", "64M"]).arg(&path).run()?;
        let stderr = explained.stderr_text();
        ensure!(explained.signal.is_none() && !explained.timed_out, "explain {name}: {:?} {stderr}", explained.signal);
        ensure!(
            explained.code == Some(0) && !stderr.contains("panicked"),
            "explain {name}: {:?} {stderr}",
            explained.code
        );
    }
    Ok(Verdict::Passed)
}

/// A program that makes the host parse one costly text after another ends at its limit, although it computes nothing
/// itself.
fn counts_parsing_as_cpu_time(kit: &Kit, _: Guest) -> Result<Verdict> {
    let program = "import fs from 'node:fs';
const text = '({a=b as '.repeat(60) + 'c' + ':0)=>0}:0)=>0'.repeat(60);
for (let n = 0; n < 5000; n++) {
  fs.writeFileSync(`/work/${n}.ts`, text);
  try { await import(`/work/${n}.ts`) } catch {}
}";
    let run = kit.run_json().args(["--cpu-time", "1s", "--timeout", "100s"]);
    let report = check_sound(&run.args(Guest::JavaScript.inline(program)).run()?)?;
    ensure!(report.kind() == "timeout_cpu", "{}", report.json());
    Ok(Verdict::Passed)
}

/// A foreign program at the path of the analyzer does not run.
fn rejects_replaced_analyzer(kit: &Kit, guest: Guest) -> Result<Verdict> {
    with_copied_home(kit, |home| {
        let run = || -> Result<()> {
            let result = kit.run_json().home(home).args(guest.inline("import os; print(os.sep)")).run()?;
            let report = check_sound(&result)?;
            ensure!(report.stdout() == "/\n", "{}", report.json());
            Ok(())
        };
        run()?;
        let is_program = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "seal");
        let entries = fs::read_dir(home.join("cache/programs"))?.flatten().map(|entry| entry.path());
        let programs: Vec<PathBuf> = entries.filter(is_program).collect();
        let [analyzer] = &programs[..] else { bail!("{programs:?} are kept") };
        let canary = home.join("was-run");
        let mut planted = format!("#!/bin/sh\ntouch '{}'\n", canary.display()).into_bytes();
        planted.resize(usize::try_from(fs::metadata(analyzer)?.len())?, b'\n');
        fs::remove_file(analyzer)?;
        fs::write(analyzer, planted)?;
        fs::set_permissions(analyzer, fs::Permissions::from_mode(0o500))?;
        run()?;
        ensure!(!canary.exists(), "the planted program was run");
        Ok(Verdict::Passed)
    })
}
