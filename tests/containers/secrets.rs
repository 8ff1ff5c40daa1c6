//! C8: secrets of the host or of an image do not appear in the job.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

/// User variables that engines' CLIs and programs pass on.
const SECRET_VARIABLES: [&str; 12] = [
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
        row("C8::environment", |test_env| environment(test_env, test_env.run())),
        row("C8::environment_of_image", |test_env| environment(test_env, test_env.run_hostile())),
        row("C8::files", files),
        row("C8::agent_environment", agent_environment),
    ]
}

/// Sets all these variables of `job` to the secret.
fn with_secret_environment(test_env: &TestEnvironment, job: Codebox) -> Codebox {
    let secret = test_env.canaries.secret();
    SECRET_VARIABLES.iter().fold(job, |job, name| job.env(name, format!("http://user:{secret}@127.0.0.1:9")))
}

/// Checks that a job's environment has only the default variables.
fn environment(test_env: &TestEnvironment, job: Codebox) -> Result<()> {
    let report =
        test_env.run_expecting("ok", 0, with_secret_environment(test_env, job).args(["--", "/usr/bin/env", "-0"]))?;
    let names: BTreeSet<&str> = report.stdout().split('\0').filter_map(|line| Some(line.split_once('=')?.0)).collect();
    ensure!(names == BTreeSet::from(["HOME", "PATH"]), "variables are {names:?}");
    ensure!(!report.stdout().contains("secret"), "unexpected {}", report.stdout());
    Ok(())
}

/// Places where tools keep secrets are missing or empty.
fn files(test_env: &TestEnvironment) -> Result<()> {
    let script = "for place in /run/secrets /var/run/secrets /root/.docker /work/.docker /work/.netrc /run/containers /kaniko; do \
                [ -e $place ] && find $place -type f; done; :";
    let report = test_env.run_expecting(
        "ok",
        0,
        with_secret_environment(test_env, test_env.run()).args(["--", "/bin/bash", "-c", script]),
    )?;
    ensure!(report.stdout().is_empty(), "found {}", report.stdout());
    Ok(())
}

/// The agent, which gets the image's environment from the engine, neither exposes it nor passes it on.
fn agent_environment(test_env: &TestEnvironment) -> Result<()> {
    let script = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'";
    let report = test_env.run_expecting(
        "ok",
        0,
        with_secret_environment(test_env, test_env.run_hostile()).args(["--", "/bin/bash", "-c", script]),
    )?;
    ensure!(!report.stdout().contains("SECRET"), "found {}", report.stdout());
    ensure!(!report.stdout().contains("LD_PRELOAD"), "found {}", report.stdout());
    Ok(())
}
