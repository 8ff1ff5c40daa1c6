//! S1: instances never generate the same random values.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Guest, Kit};

use crate::Verdict;
use crate::scenario::{Scenario, scenario};

pub fn trials() -> Vec<Scenario> {
    let plain = scenario("S1::s1_unique", |kit, guest| unique(kit, guest, &["--image", guest.name()], 200));
    let data = scenario("S1::s1_unique::data", |kit, guest| unique(kit, guest, &["--image", "python-data"], 40));
    vec![plain.with(&["s1_unique"]), data.with(&["s1_unique"]).only(Guest::Python)]
}

fn unique(kit: &Kit, guest: Guest, options: &[&str], runs: usize) -> Result<Verdict> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..runs {
        let run = kit.run_json().args(options.iter().copied()).arg(guest.hostile("s1_unique"));
        let report = run.run()?.report()?;
        let line = report.lines().into_iter().next().with_context(|| format!("no values: {}", report.json()))?;
        let values = line["values"].as_object().context("no values")?;
        ensure!(values.len() >= 9, "only {values:?}");
        for (name, value) in values {
            if let Some(before) = seen.insert(format!("{name} {value}"), number) {
                anyhow::bail!("runs {before} and {number} have the same {name}: {value}");
            }
        }
    }
    Ok(Verdict::Passed)
}
