//! C7: no network. The tests contact only this machine's loopback and an unassigned address: the interface and routes
//! of a job show what it could reach.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::row::{Row, row};
use crate::test_env::{TestEnvironment, program};

pub fn rows() -> Vec<Row> {
    vec![
        row("C7::unreachable_networks", unreachable_networks),
        row("C7::socket_families", socket_families),
        row("C7::host_services", host_services),
    ]
}

fn facts(test_env: &TestEnvironment) -> Result<Vec<Value>> {
    let port = test_env.canaries.port().to_string();
    let report = test_env.run_expecting("ok", 0, test_env.run().arg(program("c7_network.py")).arg(port))?;
    Ok(report.lines())
}

fn fact(facts: &[Value], what: &str) -> Value {
    let found = facts.iter().find(|fact| fact["what"] == what);
    found.map_or(Value::Null, |fact| fact["value"].clone())
}

/// The job has its own loopback, no route out and no names; the canaries' listener receives no connection.
fn unreachable_networks(test_env: &TestEnvironment) -> Result<()> {
    let facts = facts(test_env)?;
    ensure!(fact(&facts, "interfaces") == serde_json::json!(["lo"]), "unexpected {}", fact(&facts, "interfaces"));
    for what in ["routes", "routes of version 6"] {
        ensure!(fact(&facts, what) == 0, "{what}: {}", fact(&facts, what));
    }
    for what in ["connect 127.0.0.1", "connect 192.0.2.1", "connect ::1", "datagram 192.0.2.1", "name"] {
        ensure!(fact(&facts, what) == "refused", "{what}: {}", fact(&facts, what));
    }
    Ok(())
}

/// Socket families that no network namespace contains, and those that need capabilities, are unavailable.
fn socket_families(test_env: &TestEnvironment) -> Result<()> {
    let facts = facts(test_env)?;
    for what in ["socket raw", "socket AF_PACKET", "socket AF_ALG", "socket AF_VSOCK"] {
        ensure!(fact(&facts, what) == "refused", "{what}: {}", fact(&facts, what));
    }
    Ok(())
}

/// Abstract sockets of the host and sockets of an engine are not visible.
fn host_services(test_env: &TestEnvironment) -> Result<()> {
    let facts = facts(test_env)?;
    ensure!(
        fact(&facts, "sockets of the system") == serde_json::json!([]),
        "{}",
        fact(&facts, "sockets of the system")
    );
    Ok(())
}
