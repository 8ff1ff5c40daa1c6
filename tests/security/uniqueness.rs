//! S1: no two instances make the same random values.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Kit, hostile_dir};

use crate::{Compound, Verdict};

pub fn compound() -> Vec<Compound> {
    vec![
        ("S1::s1_unique::python", vec!["s1_unique"], |kit| unique(kit, &["--image", "python"], 200)),
        ("S1::s1_unique::python-data", vec!["s1_unique"], |kit| unique(kit, &["--image", "python-data"], 40)),
    ]
}

fn unique(kit: &Kit, options: &[&str], runs: usize) -> Result<Verdict> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..runs {
        let run = kit.run_json().args(options.iter().copied()).arg(hostile_dir().join("s1_unique.py"));
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
    Ok(Verdict::Held)
}
