//! Runs that reached a host, which are not silently repeated.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::{self, JavaScript, Python};

use crate::{Case, TestEnvironment};

pub fn cases() -> Vec<Case> {
    vec![
        ("does_not_rerun_after_connecting", Python, |test_env| does_not_rerun_after_connecting(test_env, Python)),
        ("does_not_rerun_after_connecting", JavaScript, |test_env| {
            does_not_rerun_after_connecting(test_env, JavaScript)
        }),
        ("counts_failed_tls_as_connected", Python, counts_failed_tls_as_connected),
    ]
}

/// Runs a program that fails because it needs a process, with containers allowed but no engine available. Returns the
/// reason why the program was not run again.
fn escalation_reason(test_env: &TestEnvironment, guest: Guest, text: &str) -> Result<String> {
    let run = test_env.kit.codebox().env("DOCKER_HOST", "unix:///no/docker.sock");
    let run = run.env("CONTAINER_HOST", "unix:///no/podman.sock").env("SSL_CERT_FILE", test_env.roots());
    let failing_code = guest.choose(
        "\ngetattr(__import__('sub' + 'process'), 'run')(['true'])",
        "\n(await import('child_' + 'process')).execSync('true');",
    );
    let text = test_env.substitute_ports(&format!("{text}{failing_code}"));
    let mut run = run.args(["run", "--json"]).args(guest.inline(&text));
    for grant in test_env.all() {
        run = run.args(["--net".to_owned(), grant]);
    }
    let report = run.run()?.report()?;
    let reason = report.at("/needs_escalation/reason").as_str().unwrap_or_default().to_owned();
    ensure!(reason.starts_with("the program needs processes"), "failed for another reason: {}", report.json());
    Ok(reason)
}

fn does_not_rerun_after_connecting(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let (connects, fails_to_connect) = guest.choose(
        (
            "import socket; socket.create_connection(('127.0.0.1', PLAIN))",
            "import socket; socket.socket().connect_ex(('127.0.0.1', 9))",
        ),
        ("await fetch('http://127.0.0.1:PLAIN/hello');", "await fetch('http://127.0.0.1:9/').catch(() => 0);"),
    );
    let reason = escalation_reason(test_env, guest, connects)?;
    ensure!(reason.contains("it has connected to hosts on the network"), "{reason}");
    // A run that reached no host would be repeated if an engine were available.
    let reason = escalation_reason(test_env, guest, fails_to_connect)?;
    ensure!(!reason.contains("connected") && reason.contains("engine"), "{reason}");
    Ok(())
}

fn counts_failed_tls_as_connected(test_env: &TestEnvironment) -> Result<()> {
    let text = "import urllib.request\ntry:\n    urllib.request.urlopen('https://localhost:MISNAMED/hello')\nexcept OSError: pass";
    let reason = escalation_reason(test_env, Python, text)?;
    ensure!(reason.contains("it has connected to hosts on the network"), "{reason}");
    Ok(())
}
