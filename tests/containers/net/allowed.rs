//! Granted hosts are reachable for clients of all kinds.

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Report};
use serde_json::Value;

use super::names::with_host_names;
use super::server::{OK, Server};
use crate::test_env::TestEnvironment;

const FETCH: &str = "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1]).read().decode())";

pub fn python(job: Codebox, text: &str, args: &[&str]) -> Codebox {
    job.args(["--lang", "python", "-c", text]).args(args.to_vec())
}

pub fn attempts(report: &Report) -> Vec<Value> {
    report.at("/network/attempts").as_array().cloned().unwrap_or_default()
}

fn all_allowed(report: &Report, count: usize) -> Result<()> {
    let attempts = attempts(report);
    let allowed = attempts.iter().filter(|one| one["verdict"] == "allowed").count();
    ensure!(attempts.len() == count && allowed == count, "attempts: {attempts:?}");
    ensure!(report.at("/denials").as_array().is_none_or(Vec::is_empty), "denials: {}", report.at("/denials"));
    Ok(())
}

/// Through the proxy, which is the only route to an address range.
pub fn plain(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, b"well done".to_vec())?;
    let grant = format!("127.0.0.0/8:{}", server.port);
    let url = format!("http://127.0.0.1:{}/a?b=c", server.port);
    let report = test_env.run_expecting("ok", 0, python(test_env.run().args(["--net", &grant]), FETCH, &[&url]))?;
    ensure!(report.stdout() == "well done\n", "{}", report.stdout());
    all_allowed(&report, 1)?;
    let attempt = &attempts(&report)[0];
    ensure!(attempt["host"] == "127.0.0.1" && attempt["port"] == server.port && attempt["address"] == "127.0.0.1");
    ensure!(attempt["received"].as_u64() > Some(9) && attempt["sent"].as_u64() > Some(9), "{attempt}");
    ensure!(report.at("/network/received") == &attempt["received"], "{}", report.at("/network"));
    Ok(())
}

/// The machine's certificate authorities are trusted in the container too; a granted port of this machine is at the
/// job's own localhost.
pub fn tls(test_env: &TestEnvironment) -> Result<()> {
    let (server, authority) = Server::with_tls(&["localhost"], "over TLS")?;
    let (grant, url) = (format!("localhost:{}", server.port), format!("https://localhost:{}/", server.port));
    let job = test_env.run().args(["--net", &grant]).env("SSL_CERT_FILE", authority.path());
    let report = test_env.run_expecting("ok", 0, python(job, FETCH, &[&url]))?;
    ensure!(report.stdout() == "over TLS\n", "{}", report.stdout());
    all_allowed(&report, 1)?;
    let untrusting_job = test_env.run().args(["--net", &grant]);
    let report = test_env.run_expecting("guest_error", 1, python(untrusting_job, FETCH, &[&url]))?;
    ensure!(report.stderr().contains("CERTIFICATE_VERIFY_FAILED"), "{}", report.stderr());
    Ok(())
}

/// Node's `fetch` ignores proxies: a granted name leads to a port forward.
pub fn node(test_env: &TestEnvironment) -> Result<()> {
    let (server, authority) = Server::with_tls(&["api.example.test"], "over TLS")?;
    let (name, address) = (format!("api.example.test:{}", server.port), format!("127.0.0.1:{}", server.port));
    let fetch = "const got = await fetch(process.argv.at(-1)); console.log(got.status, await got.text())";
    let job = test_env.run().args(["--net", &name, "--net", &address]).env("SSL_CERT_FILE", authority.path());
    let job = job.args(["--lang", "javascript", "-c", fetch, &format!("https://{name}/")]);
    let job = with_host_names(test_env, &[("api.example.test", "127.0.0.1")], &job)?;
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout() == "200 over TLS\n", "{}", report.stdout());
    all_allowed(&report, 1)?;
    ensure!(attempts(&report)[0]["host"] == "api.example.test", "{}", report.at("/network"));
    Ok(())
}

/// Any protocol works, in both directions at once, with more data than any window holds.
pub fn raw(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::echo()?;
    let text = "import socket, sys, threading\n\
        one = socket.create_connection(('db.example.test', int(sys.argv[1])))\n\
        sent = bytes(range(256)) * 20000\n\
        def send():\n    one.sendall(sent)\n    one.shutdown(socket.SHUT_WR)\n\
        threading.Thread(target=send).start()\n\
        got = b''.join(iter(lambda: one.recv(65536), b''))\n\
        print(got == sent, len(got))";
    let port = server.port.to_string();
    let (name, address) = (format!("db.example.test:{port}"), format!("127.0.0.1:{port}"));
    let job = python(test_env.run().args(["--net", &name, "--net", &address]), text, &[&port]);
    let report =
        test_env.run_expecting("ok", 0, with_host_names(test_env, &[("db.example.test", "127.0.0.1")], &job)?)?;
    ensure!(report.stdout() == "True 5120000\n", "{}", report.stdout());
    all_allowed(&report, 1)?;
    ensure!(report.at("/network/sent") == 5_120_000 && report.at("/network/received") == 5_120_000);
    Ok(())
}

/// Consecutive and concurrent requests work, with more of them at once than are forwarded at a time.
pub fn many_requests(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, vec![b'x'; 1000])?;
    let text = "import concurrent.futures as f, sys, urllib.request\n\
        get = lambda _: len(urllib.request.urlopen(sys.argv[1]).read())\n\
        print(sum(map(get, range(100))), end=' ')\n\
        with f.ThreadPoolExecutor(40) as pool:\n    print(sum(pool.map(get, range(300))))";
    let (grant, url) = (format!("localhost:{}", server.port), format!("http://localhost:{}/", server.port));
    let report = test_env.run_expecting("ok", 0, python(test_env.run().args(["--net", &grant]), text, &[&url]))?;
    ensure!(report.stdout() == "100000 300000\n", "{}", report.stdout());
    let attempts = attempts(&report);
    ensure!(attempts.len() == 1 && attempts[0]["times"] == 400, "{attempts:?}");
    ensure!(server.connection_count() == 400, "{} connections", server.connection_count());
    Ok(())
}

/// A warm container has the same granted hosts.
pub fn warm(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, b"warm".to_vec())?;
    let (grant, url) = (format!("localhost:{}", server.port), format!("http://localhost:{}/", server.port));
    let run = || {
        let job = test_env.run().args(["--warm", "1", "--net", &grant]);
        let report = test_env.run_expecting("ok", 0, python(job, FETCH, &[&url]))?;
        ensure!(report.stdout() == "warm\n", "{}", report.stdout());
        all_allowed(&report, 1)
    };
    let done = run().and_then(|()| {
        // The pool daemon's first container may take a moment; the port forward is there whichever container serves the
        // run.
        (0..4).try_for_each(|_| run())
    });
    let ended = test_env.run().args(["--warm", "0", "--", "/bin/true"]).run()?;
    ensure!(ended.code == Some(0), "final run: {}", ended.stderr_text());
    done
}

/// Wildcards match names by label, through the proxy.
pub fn wildcard(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, b"below".to_vec())?;
    let text = "import sys, urllib.error, urllib.request\n\
        for url in sys.argv[1:]:\n    try:\n        print(urllib.request.urlopen(url).read().decode())\n    \
        except urllib.error.HTTPError as error:\n        print(error.code, error.reason)";
    let port = server.port;
    let (names, address) = (format!("*.example.test:{port}"), format!("127.0.0.1:{port}"));
    let hosts = ["a.example.test", "b.a.example.test", "example.test", "evilexample.test"];
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let job = python(test_env.run().args(["--net", &names, "--net", &address]), text, &urls);
    let report =
        test_env.run_expecting("ok", 0, with_host_names(test_env, &hosts.map(|host| (host, "127.0.0.1")), &job)?)?;
    let refused = |host| format!("403 codebox: {host}:{port}: it is not granted\n");
    let expected = format!("below\nbelow\n{}{}", refused("example.test"), refused("evilexample.test"));
    ensure!(report.stdout() == expected, "{}", report.stdout());
    ensure!(server.connection_count() == 2, "{} connections", server.connection_count());
    Ok(())
}
