//! L5: many consecutive jobs. None fails, and the machine's state afterwards is as before.
//!
//! Several codebox processes run side by side, each with one job after another.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use codebox_testkit::soak;

use crate::engine::Engine;
use crate::parallel_map::parallel_map;
use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("L5::consecutive_jobs", consecutive)]
}

const CONCURRENCY: usize = 3;

/// Returns a job in Python, in JavaScript or without a language, and its output.
fn job(number: usize) -> ([String; 4], String) {
    let (option, language, text) = match number % 3 {
        0 => ("--lang", "python", format!("print({number}); open('/work/out', 'w').write('x' * {number})")),
        1 => ("--timeout", "60s", format!("echo {number}; echo {number} > /tmp/out")),
        _ => ("--lang", "js", format!("console.log({number}); require('fs').writeFileSync('/work/out', '{number}')")),
    };
    ([option, language, "-c", &text].map(str::to_owned), format!("{number}\n"))
}

fn consecutive(test_env: &TestEnvironment) -> Result<()> {
    let before = networks_and_volumes(test_env.engine)?;
    let numbers: Vec<usize> = (0..soak().of(24, 500)).collect();
    parallel_map(CONCURRENCY, &numbers, |number| {
        let ([option, value, how, text], printed) = job(*number);
        let run = match option.as_str() {
            "--timeout" => test_env.run().args([option, value]).args(["--", "/bin/sh"]).args([how, text]),
            _ => test_env.run().args([option, value, how, text]),
        };
        let report = test_env.run_expecting("ok", 0, run)?;
        ensure!(report.stdout() == printed && report.stderr().is_empty(), "{number}: {}", report.json());
        Ok(())
    })?;
    test_env.check_nothing_left()?;
    wait_until_empty(|| Ok(networks_and_volumes(test_env.engine)?.difference(&before).cloned().collect()))
}

/// Lists networks and volumes of the engine. They have no label, but no other test creates any.
fn networks_and_volumes(engine: Engine) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for what in ["network", "volume"] {
        let names = engine.run_cli(&[what, "ls", "--quiet"])?;
        all.extend(names.lines().map(|name| format!("{what} {name}")));
    }
    Ok(all)
}
