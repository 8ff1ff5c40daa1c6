//! C8: secrets of the host or of an image do not appear in the job.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::ground::Ground;
use crate::row::{Row, row};

/// User variables that engines' CLIs and programs pass on.
const PASSED_ON: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "ALL_PROXY",
    "NO_PROXY",
    "FTP_PROXY",
    "REGISTRY_AUTH_FILE",
    "SSH_AUTH_SOCK",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "XDG_CONFIG_HOME",
];

pub fn rows() -> Vec<Row> {
    vec![
        row("C8::environment", |ground| environment(ground, ground.run())),
        row("C8::environment_of_image", |ground| environment(ground, ground.run_hostile())),
        row("C8::files", files),
        row("C8::first_process", first_process),
    ]
}

/// Sets all these variables of `job` to the secret.
fn surrounded(ground: &Ground, job: Codebox) -> Codebox {
    let secret = ground.canaries.secret();
    PASSED_ON.iter().fold(job, |job, name| job.env(name, format!("http://user:{secret}@127.0.0.1:9")))
}

/// Checks that a job's environment has only the default variables.
fn environment(ground: &Ground, job: Codebox) -> Result<()> {
    let report = ground.ends("ok", 0, surrounded(ground, job).args(["--", "/usr/bin/env", "-0"]))?;
    let names: BTreeSet<&str> = report.stdout().split('\0').filter_map(|line| Some(line.split_once('=')?.0)).collect();
    ensure!(names == BTreeSet::from(["HOME", "PATH"]), "it has {names:?}");
    ensure!(!report.stdout().contains("secret"), "it has {}", report.stdout());
    Ok(())
}

/// Places where tools keep secrets are missing or empty.
fn files(ground: &Ground) -> Result<()> {
    let look = "for place in /run/secrets /var/run/secrets /root/.docker /work/.docker /work/.netrc /run/containers /kaniko; do \
                [ -e $place ] && find $place -type f; done; :";
    let report = ground.ends("ok", 0, surrounded(ground, ground.run()).args(["--", "/bin/bash", "-c", look]))?;
    ensure!(report.stdout().is_empty(), "it found {}", report.stdout());
    Ok(())
}

/// The agent, which gets the image's environment from the engine, neither exposes it nor passes it on.
fn first_process(ground: &Ground) -> Result<()> {
    let look = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'";
    let report =
        ground.ends("ok", 0, surrounded(ground, ground.run_hostile()).args(["--", "/bin/bash", "-c", look]))?;
    ensure!(!report.stdout().contains("SECRET"), "it found {}", report.stdout());
    ensure!(!report.stdout().contains("LD_PRELOAD"), "it found {}", report.stdout());
    Ok(())
}
