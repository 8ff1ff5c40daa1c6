//! Runs that reached a host, which are not silently repeated.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::{self, JavaScript, Python};

use crate::{Case, Ground};

pub fn cases() -> Vec<Case> {
    vec![
        ("what_was_reached_is_not_reached_again", Python, |ground| reached(ground, Python)),
        ("what_was_reached_is_not_reached_again", JavaScript, |ground| reached(ground, JavaScript)),
        ("tls_that_failed_has_reached_somebody", Python, failed_tls),
    ]
}

/// Runs a program that fails because it needs a process, with containers allowed but no engine available. Returns the
/// reason why the program was not run again.
fn why(ground: &Ground, guest: Guest, text: &str) -> Result<String> {
    let run = ground.kit.codebox().env("DOCKER_HOST", "unix:///no/docker.sock");
    let run = run.env("CONTAINER_HOST", "unix:///no/podman.sock").env("SSL_CERT_FILE", ground.roots());
    let dies = guest.choose(
        "\ngetattr(__import__('sub' + 'process'), 'run')(['true'])",
        "\n(await import('child_' + 'process')).execSync('true');",
    );
    let text = ground.at_ports(&format!("{text}{dies}"));
    let mut run = run.args(["run", "--json"]).args(guest.inline(&text));
    for grant in ground.all() {
        run = run.args(["--net".to_owned(), grant]);
    }
    let report = run.run()?.report()?;
    let reason = report.at("/needs_escalation/reason").as_str().unwrap_or_default().to_owned();
    ensure!(reason.starts_with("the program needs processes"), "it did not die of that: {}", report.json());
    Ok(reason)
}

fn reached(ground: &Ground, guest: Guest) -> Result<()> {
    let (reaches, tries) = guest.choose(
        (
            "import socket; socket.create_connection(('127.0.0.1', PLAIN))",
            "import socket; socket.socket().connect_ex(('127.0.0.1', 9))",
        ),
        ("await fetch('http://127.0.0.1:PLAIN/hello');", "await fetch('http://127.0.0.1:9/').catch(() => 0);"),
    );
    let reason = why(ground, guest, reaches)?;
    ensure!(reason.contains("it has connected to hosts on the network"), "{reason}");
    // A run that reached no host would be repeated if an engine were available.
    let reason = why(ground, guest, tries)?;
    ensure!(!reason.contains("connected") && reason.contains("engine"), "{reason}");
    Ok(())
}

fn failed_tls(ground: &Ground) -> Result<()> {
    let text = "import urllib.request\ntry:\n    urllib.request.urlopen('https://localhost:MISNAMED/hello')\nexcept OSError: pass";
    let reason = why(ground, Python, text)?;
    ensure!(reason.contains("it has connected to hosts on the network"), "{reason}");
    Ok(())
}
