//! Hosts that are not granted are unreachable, and the report lists the attempts and how to allow them.

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use super::allowed::attempts;
use super::names::{with_host_names, with_server_at};
use super::server::{OK, Server};
use crate::running_jobs::{WAITING_PROGRAM, while_running};
use crate::test_env::{TestEnvironment, program};

/// Program that fetches each address and prints the result.
const FETCH: &str = "import sys, urllib.error, urllib.request\n\
    for url in sys.argv[1:]:\n    try:\n        print(urllib.request.urlopen(url, timeout=30).status)\n    \
    except urllib.error.HTTPError as error:\n        print(error.code, error.reason)\n    \
    except OSError as error:\n        print(type(error).__name__, error)";

fn fetch(job: Codebox, urls: &[String]) -> Codebox {
    job.args(["--lang", "python", "-c", FETCH]).args(urls.to_vec())
}

/// Without a grant, neither a port forward nor a proxy setting exists.
pub fn no_network_without_grant(test_env: &TestEnvironment) -> Result<()> {
    let text = "import os, socket\n\
        print(sorted(name for name in os.environ if 'proxy' in name.lower() or 'CERT' in name))\n\
        print(open('/etc/hosts').read().count('127.77.'))\n\
        one = socket.socket()\nprint(one.connect_ex(('127.77.0.1', 3128)))";
    let report = test_env.run_expecting("ok", 0, test_env.run().args(["--lang", "python", "-c", text]))?;
    ensure!(report.stdout() == "[]\n0\n111\n", "{}", report.stdout());
    ensure!(report.at("/network").is_null(), "{}", report.at("/network"));
    let client = "import urllib.request\nurllib.request.urlopen('http://api.example.org')";
    let report = test_env.run_expecting("guest_error", 1, test_env.run().args(["--lang", "python", "-c", client]))?;
    let missing = report.at("/missing").to_string();
    ensure!(missing.contains("line 2 uses urllib.request.urlopen") && missing.contains("--net"), "{missing}");
    Ok(())
}

/// With granted hosts, a container has no more network than without: its own loopback, no route out, and no names
/// except the granted ones.
pub fn isolated_except_grants(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(["--net", "a.example.org:5432", "--lang", "python", "-c", WAITING_PROGRAM]);
    let (result, found) = while_running(test_env, job, |id| test_env.engine.inspect(id))?;
    test_env.check_run(&result)?;
    ensure!(found["HostConfig"]["NetworkMode"] == "none", "{}", found["HostConfig"]["NetworkMode"]);
    let hosts = &found["HostConfig"]["ExtraHosts"];
    ensure!(*hosts == serde_json::json!(["a.example.org:127.77.1.1"]), "{hosts}");
    let port = test_env.canaries.port().to_string();
    let job = test_env.run().args(["--net", "a.example.org:5432"]).arg(program("c7_network.py")).arg(port);
    let facts = test_env.run_expecting("ok", 0, job)?.lines();
    let fact = |what: &str| facts.iter().find(|fact| fact["what"] == what).map(|fact| fact["value"].clone());
    ensure!(fact("interfaces") == Some(serde_json::json!(["lo"])), "{facts:?}");
    ensure!(fact("routes") == Some(0.into()) && fact("routes of version 6") == Some(0.into()), "{facts:?}");
    for what in ["connect 127.0.0.1", "connect 192.0.2.1", "connect ::1", "datagram 192.0.2.1", "name"] {
        ensure!(fact(what) == Some("refused".into()), "{what}: {facts:?}");
    }
    Ok(())
}

pub fn other_hosts(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, Vec::new())?;
    let (port, canary) = (server.port, test_env.canaries.port());
    let urls = [
        format!("http://127.0.0.1:{canary}/"),
        format!("http://127.0.0.2:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f000001:{port}/"),
        format!("http://0177.0.0.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://127.0.0.1.:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://other.example/".to_owned(),
    ];
    // A range has no port forward, so all traffic uses the proxy.
    let grants = [format!("127.0.0.1/32:{port}"), "127.0.0.3".to_owned()];
    let job = test_env.run().args(["--net", &grants[0], "--net", &grants[1]]);
    // These settings send every request to the proxy.
    let job = job.args(["--env", "NO_PROXY=none.invalid", "--env", "no_proxy=none.invalid"]);
    let report = test_env.run_expecting("ok", 0, fetch(job, &urls))?;
    let lines: Vec<&str> = report.stdout().lines().collect();
    ensure!(lines.len() == urls.len(), "{}", report.stdout());
    for (url, line) in urls.iter().zip(&lines) {
        let refused = line.starts_with("403 codebox: ") || line.contains("Tunnel connection failed: 403 codebox: ");
        ensure!(refused, "{url}: {line}");
    }
    let attempts = attempts(&report);
    ensure!(attempts.len() == urls.len() && attempts.iter().all(|one| one["verdict"] == "refused"), "{attempts:?}");
    ensure!(attempts[8]["reason"].as_str().is_some_and(|why| why.contains("metadata")), "{}", attempts[8]);
    let hint = report.at("/denials").to_string();
    ensure!(
        hint.contains("add --net other.example:443") && hint.contains(&format!("add --net 127.0.0.1:{canary}")),
        "{hint}"
    );
    ensure!(server.connection_count() == 0, "the server received {} requests", server.connection_count());
    Ok(())
}

/// The client follows redirects, and the target is checked like any other address.
pub fn redirects(test_env: &TestEnvironment) -> Result<()> {
    let head = format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/secret", test_env.canaries.port());
    let server = Server::with_response(Box::leak(head.into_boxed_str()), Vec::new())?;
    let grants = [format!("127.0.0.1:{}", server.port), "127.0.0.3".to_owned()];
    let job = test_env.run().args(["--net", &grants[0], "--net", &grants[1]]);
    let job = job.args(["--env", "NO_PROXY=none.invalid", "--env", "no_proxy=none.invalid"]);
    let report = test_env.run_expecting("ok", 0, fetch(job, &[format!("http://127.0.0.1:{}/", server.port)]))?;
    ensure!(report.stdout().starts_with("403 codebox: 127.0.0.1:"), "{}", report.stdout());
    let verdicts: Vec<_> = attempts(&report).iter().map(|one| one["verdict"].clone()).collect();
    ensure!(verdicts == ["allowed", "refused"], "{verdicts:?}");
    ensure!(server.connection_count() == 1, "the server received {} requests", server.connection_count());
    Ok(())
}

/// A granted name does not open an address that only this machine or its network can reach.
pub fn private_addresses_behind_names(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, Vec::new())?;
    let port = server.port;
    let names = [
        ("loop.example.test", "127.0.0.1"),
        ("loop6.example.test", "::1"),
        ("private.example.test", "10.255.255.1"),
        ("local.example.test", "169.254.1.1"),
        ("meta.example.test", "169.254.169.254"),
        ("shared.example.test", "100.64.0.1"),
        ("wrapped.example.test", "::ffff:127.0.0.1"),
        ("none.example.test", "0.0.0.0"),
    ];
    let urls: Vec<String> = names.iter().map(|(name, _)| format!("http://{name}:{port}/")).collect();
    let job = fetch(test_env.run().args(["--net", "*.example.test", "--net", "0.0.0.0/0", "--net", "[::/0]"]), &urls);
    let report = test_env.run_expecting("ok", 0, with_host_names(test_env, &names, &job)?)?;
    for (line, (name, address)) in report.stdout().lines().zip(names) {
        ensure!(line.starts_with(&format!("403 codebox: {name}:{port}: it is a")), "{name}: {line}");
        // The address behind a name is shown only to the user who started the job.
        ensure!(!line.contains(address), "{name}: {line}");
    }
    let attempts = attempts(&report);
    ensure!(attempts.len() == names.len() && attempts.iter().all(|one| one["verdict"] == "refused"), "{attempts:?}");
    ensure!(
        report.at("/denials").to_string().contains(&format!("add --net 10.255.255.1:{port}")),
        "{}",
        report.at("/denials")
    );
    ensure!(server.connection_count() == 0, "the server received {} requests", server.connection_count());
    Ok(())
}

/// The metadata address of clouds, in a network that has one, is reachable neither by a name nor in a range, only by an
/// explicit grant.
pub fn metadata(test_env: &TestEnvironment) -> Result<()> {
    const ADDRESS: &str = "169.254.169.254";
    let names = [("meta.example.test", ADDRESS)];
    let urls = [format!("http://{ADDRESS}/"), "http://meta.example.test/".to_owned()];
    let run = |grants: &[&str]| {
        let options = grants.iter().flat_map(|grant| ["--net", grant]);
        let job = fetch(test_env.run().args(options), &urls);
        let report = test_env.run_expecting("ok", 0, with_server_at(test_env, ADDRESS, &names, &job)?)?;
        anyhow::Ok(report.stdout().to_owned())
    };
    let wide = run(&["*.example.test", "169.254.0.0/16", "0.0.0.0/0"])?;
    ensure!(wide.lines().count() == 2 && wide.lines().all(|line| line.starts_with("403 codebox: ")), "{wide}");
    // The server is up: an explicit grant reaches it.
    let named = run(&["*.example.test", ADDRESS])?;
    ensure!(named == "200\n200\n", "{named}");
    Ok(())
}

/// A public address that belongs to this machine is refused, because its services may be meant for others only.
pub fn own_address(test_env: &TestEnvironment) -> Result<()> {
    const ADDRESS: &str = "192.88.98.7";
    let names = [("own.example.test", ADDRESS)];
    let run = |grants: &[&str]| {
        let options = grants.iter().flat_map(|grant| ["--net", grant]);
        let job = fetch(test_env.run().args(options), &["http://own.example.test/".to_owned()]);
        let report = test_env.run_expecting("ok", 0, with_server_at(test_env, ADDRESS, &names, &job)?)?;
        anyhow::Ok(report.stdout().to_owned())
    };
    let named = run(&["own.example.test"])?;
    ensure!(named.starts_with("403 codebox: own.example.test:80: it is an address of this machine"), "{named}");
    let granted = run(&["own.example.test", ADDRESS])?;
    ensure!(granted == "200\n", "{granted}");
    Ok(())
}

/// Hosts that the configuration does not allow cannot be granted, and a project file cannot widen the configuration.
pub fn not_allowed_by_configuration(test_env: &TestEnvironment) -> Result<()> {
    let config = test_env.home().join("config/config.toml");
    std::fs::write(&config, "[network]\nallow = [\"*.example.test:443\"]\n")?;
    let run_with_grant = |folder: &std::path::Path, grant: &str| {
        let job = test_env.run().folder(folder).args(["--net", grant, "--lang", "python", "-c", "print(1)"]);
        job.run()?.report()
    };
    let folder = test_env.kit.folder()?;
    let report = run_with_grant(folder.path(), "a.example.test:443")?;
    ensure!(report.kind() == "ok", "{}", report.json());
    let report = run_with_grant(folder.path(), "evil.example:443")?;
    ensure!(report.kind() == "denied" && report.exit_code() == Some(126), "{}", report.json());
    let text_of_report = report.json().to_string();
    ensure!(
        text_of_report.contains("evil.example:443") && text_of_report.contains("network.allow"),
        "{text_of_report}"
    );
    for hostile in ["[network]\nallow = [\"evil.example:443\"]\n", "[network]\nallow = [\"0.0.0.0/0\"]\n"] {
        std::fs::write(folder.path().join("codebox.toml"), hostile)?;
        let report = run_with_grant(folder.path(), "evil.example:443")?;
        ensure!(matches!(report.kind(), "denied" | "invalid_request"), "{hostile}: {}", report.json());
    }
    // A project file without an allow list changes nothing; a project file that tries to grant is invalid.
    std::fs::write(folder.path().join("codebox.toml"), "net = [\"evil.example\"]\n")?;
    ensure!(run_with_grant(folder.path(), "a.example.test:443")?.kind() == "invalid_request");
    ensure!(test_env.containers()?.is_empty(), "a container exists");
    std::fs::remove_file(config)?;
    Ok(())
}
