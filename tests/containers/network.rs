//! C7: no network. Nothing here calls anybody beyond this machine's loopback and an address that is nobody's: what a
//! job could reach is told by what it has, an interface and its routes.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::ground::{Ground, program};
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![row("C7::reach", reach), row("C7::families", families), row("C7::host_services", host_services)]
}

fn facts(ground: &Ground) -> Result<Vec<Value>> {
    let port = ground.canaries.port().to_string();
    let report = ground.ends("ok", 0, ground.run().arg(program("c7_network.py")).arg(port))?;
    Ok(report.lines())
}

fn fact(facts: &[Value], what: &str) -> Value {
    let found = facts.iter().find(|fact| fact["what"] == what);
    found.map_or(Value::Null, |fact| fact["value"].clone())
}

/// The job has the loopback of its own, no way out of it, and no names; the listener of the canaries hears nothing.
fn reach(ground: &Ground) -> Result<()> {
    let facts = facts(ground)?;
    ensure!(fact(&facts, "interfaces") == serde_json::json!(["lo"]), "it has {}", fact(&facts, "interfaces"));
    for what in ["routes", "routes of version 6"] {
        ensure!(fact(&facts, what) == 0, "{what}: {}", fact(&facts, what));
    }
    for what in ["connect 127.0.0.1", "connect 192.0.2.1", "connect ::1", "datagram 192.0.2.1", "name"] {
        ensure!(fact(&facts, what) == "refused", "{what}: {}", fact(&facts, what));
    }
    Ok(())
}

/// Sockets that no network namespace holds, and those that need powers: none can be made.
fn families(ground: &Ground) -> Result<()> {
    let facts = facts(ground)?;
    for what in ["socket raw", "socket AF_PACKET", "socket AF_ALG", "socket AF_VSOCK"] {
        ensure!(fact(&facts, what) == "refused", "{what}: {}", fact(&facts, what));
    }
    Ok(())
}

/// Neither abstract sockets of the host's nor an engine's are seen.
fn host_services(ground: &Ground) -> Result<()> {
    let facts = facts(ground)?;
    ensure!(
        fact(&facts, "sockets of the system") == serde_json::json!([]),
        "{}",
        fact(&facts, "sockets of the system")
    );
    Ok(())
}
