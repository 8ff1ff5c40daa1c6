//! L17 and S1: instances from one image share no random value.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::Runner;
use codebox_testkit::{Kit, soak};

use crate::host::{job, succeed, text};

/// Every source of randomness that an image has already started.
const VALUES: &str = "import os, random, secrets, tempfile, uuid
print(random.random())
print(random.Random().getrandbits(64))
print(secrets.token_hex(16))
print(os.urandom(16).hex())
print(uuid.uuid4())
print(uuid.uuid1())
print(next(tempfile._get_candidate_names()))";

const NUMPY: &str = "import numpy
print(numpy.random.random())
print(numpy.random.default_rng().random())
print(numpy.random.SeedSequence().entropy)";

pub fn no_value_twice(runner: &Runner, _kit: &Kit) -> Result<()> {
    distinct(runner, VALUES, 7, soak().of(1000, 10_000))?;
    distinct(runner, NUMPY, 3, soak().of(200, 2000))
}

fn distinct(runner: &Runner, program: &str, values: usize, instances: usize) -> Result<()> {
    let mut seen = BTreeSet::new();
    for number in 0..instances {
        let report = succeed(runner, job(program, Duration::from_secs(20)))?;
        let printed = text(&report.stdout.bytes());
        ensure!(printed.lines().count() == values, "instance {number} printed {printed:?}");
        for value in printed.lines() {
            ensure!(seen.insert(value.to_owned()), "instance {number} repeats {value}");
        }
    }
    Ok(())
}
