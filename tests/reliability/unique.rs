//! L17 and S1: instances of one image share no random values.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use codebox::Workbench;
use codebox_testkit::{Guest, Kit, soak};

use crate::support::{JOB_TIMEOUT, job, run_successfully, text};

/// Python program that uses every source of randomness that an image has already initialised.
const PYTHON: &str = "import os, random, secrets, tempfile, uuid
print(random.random())
print(random.Random().getrandbits(64))
print(secrets.token_hex(16))
print(os.urandom(16).hex())
print(uuid.uuid4())
print(uuid.uuid1())
print(next(tempfile._get_candidate_names()))";

/// JavaScript program that uses every source of randomness that an image has already initialised.
const JAVASCRIPT: &str = "const crypto = require('crypto')
console.log(Math.random())
console.log(Array.from({ length: 100 }, Math.random).at(-1))
console.log(crypto.randomUUID())
console.log(crypto.randomBytes(16).toString('hex'))
console.log(crypto.getRandomValues(new Uint32Array(4)).join())
console.log(require('vm').runInNewContext('Math.random()'))
console.log(require('fs').mkdtempSync('/tmp/') + require('fs').mkdtempSync('/tmp/'))";

const NUMPY: &str = "import numpy
print(numpy.random.random())
print(numpy.random.default_rng().random())
print(numpy.random.SeedSequence().entropy)";

pub fn random_values_are_unique(runner: &Workbench, _kit: &Kit, guest: Guest) -> Result<()> {
    check_distinct(runner, guest, guest.choose(PYTHON, JAVASCRIPT), 7, soak().of(150, 10_000))
}

/// Checks the sources of randomness that Python's data image additionally initialises.
pub fn numpy_random_values_are_unique(runner: &Workbench, _kit: &Kit) -> Result<()> {
    check_distinct(runner, Guest::Python, NUMPY, 3, soak().of(100, 2000))
}

fn check_distinct(runner: &Workbench, guest: Guest, program: &str, values: usize, instances: usize) -> Result<()> {
    let mut seen = BTreeSet::new();
    for number in 0..instances {
        let report = run_successfully(runner, job(guest, program, JOB_TIMEOUT))?;
        let printed = text(&report.stdout.bytes());
        ensure!(printed.lines().count() == values, "instance {number} printed {printed:?}");
        for value in printed.lines() {
            ensure!(seen.insert(value.to_owned()), "instance {number} repeats {value}");
        }
    }
    Ok(())
}
