//! C3, C6 and C9: the means of an escape are missing. One table for both engines, filled by a job from inside.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::row::{Row, row};
use crate::test_env::{TestEnvironment, program};

/// Facts that a job reports and that have exactly one right value.
const FACTS: &str = r#"{
    "CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2,
    "root ids": [], "groups below 1000": [],
    "write /": true, "write /etc": true, "write /usr/bin": true, "write /root": true, "write /sys": true,
    "write /proc/sys/kernel": true, "write /dev": true, "write /.codebox": true, "write /run/codebox": true,
    "write /etc/passwd": true, "write /.codebox/agent": true, "write /proc/sysrq-trigger": true,
    "write /proc/sys/kernel/core_pattern": true,
    "devices": ["/dev/full", "/dev/null", "/dev/pts/ptmx", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"],
    "sockets of engines": [], "interfaces": ["lo"], "routes": 0,
    "nothing in /proc/keys": true, "nothing in /proc/timer_list": true, "nothing in /proc/kcore": true,
    "nothing in /proc/1/environ": true, "nothing in /proc/1/maps": true, "nothing in /proc/1/mem": true,
    "firmware": [], "descriptors of 1": true, "root of 1": true, "others": [], "hostname": "codebox",
    "mount refused": true, "trace refused": true, "keys refused": true, "bpf refused": true, "perf refused": true,
    "module refused": true, "setuid refused": true, "chroot refused": true, "x32 filtered": true, "user namespace refused": true
}"#;

pub fn rows() -> Vec<Row> {
    vec![
        row("C3::capabilities", capabilities),
        row("C3::writable_places", writable_places),
        row("C6::descriptors", descriptors),
        row("C9::kernel", kernel),
    ]
}

fn capabilities(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.run_expecting("ok", 0, test_env.run().arg(program("c3_audit.py")))?;
    let expected: BTreeMap<String, Value> = serde_json::from_str(FACTS)?;
    let mut wrong = Vec::new();
    let facts = report.lines();
    for (what, value) in &expected {
        let found = facts.iter().find(|fact| fact["what"] == what.as_str()).map(|fact| &fact["value"]);
        if found != Some(value) {
            wrong.push(format!("{what}: {} and not {value}", found.unwrap_or(&Value::Null)));
        }
    }
    ensure!(facts.len() == expected.len(), "{} facts were printed, expected {}", facts.len(), expected.len());
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// Limits cover every writable place: the disk limit covers files, the memory limit covers shared memory.
fn writable_places(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.run_expecting("ok", 0, test_env.run().arg(program("c3_places.py")))?;
    let places = report.lines().first().map(|line| line["writable"].clone());
    let expected = json!(["/dev/mqueue", "/dev/shm", "/tmp", "/work"]);
    ensure!(places.as_ref() == Some(&expected), "writable paths: {places:?}");
    Ok(())
}

/// The job has only its three standard streams, each a pipe of the agent, and no descriptor of codebox or an engine.
fn descriptors(test_env: &TestEnvironment) -> Result<()> {
    let list_descriptors = "import os, json\nfound = {}\nfor name in os.listdir('/proc/self/fd'):\n    try:\n        found[int(name)] = os.readlink('/proc/self/fd/' + name).split(':')[0]\n    except OSError:\n        pass\nprint(json.dumps(found))";
    let report = test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", list_descriptors]))?;
    let found = report.lines().first().cloned();
    ensure!(found == Some(json!({"0": "pipe", "1": "pipe", "2": "pipe"})), "unexpected {found:?}");
    let list_shell_descriptors =
        ["--", "/bin/bash", "-c", "for fd in {3..255}; do [ -e /proc/$$/fd/$fd ] && readlink /proc/$$/fd/$fd; done; :"];
    let report = test_env.run_expecting("ok", 0, test_env.run().args(list_shell_descriptors))?;
    // The shell keeps a descriptor of its own, at 255, for the terminal or input of its script.
    let others = report.stdout().lines().filter(|line| !line.starts_with("/dev/") && !line.starts_with("pipe:"));
    ensure!(others.count() == 0, "a shell was given {}", report.stdout());
    Ok(())
}

/// The kernel exposes no masked file and no power meters.
fn kernel(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.run_expecting("ok", 0, test_env.run().arg(program("c9_kernel.py")))?;
    let facts = report.lines();
    let readable: Vec<&Value> = facts.iter().filter(|fact| fact["readable"] == true).collect();
    ensure!(!facts.is_empty() && readable.is_empty(), "readable files: {readable:?}");
    Ok(())
}
