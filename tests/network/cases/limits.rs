//! Limits, deadlines and hostile messages, in both languages.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::{self, JavaScript, Python};

use crate::server::Server;
use crate::{Case, TestEnvironment};

type CaseBody = fn(&TestEnvironment) -> Result<()>;

pub fn cases() -> Vec<Case> {
    let both: [(&str, CaseBody, CaseBody); 4] = [
        ("limits_memory", |test_env| limits_memory(test_env, Python), |test_env| limits_memory(test_env, JavaScript)),
        ("limits_bytes", |test_env| limits_bytes(test_env, Python), |test_env| limits_bytes(test_env, JavaScript)),
        (
            "limits_connections",
            |test_env| limits_connections(test_env, Python),
            |test_env| limits_connections(test_env, JavaScript),
        ),
        (
            "enforces_deadline_during_requests",
            |test_env| enforces_deadline_during_requests(test_env, Python),
            |test_env| enforces_deadline_during_requests(test_env, JavaScript),
        ),
    ];
    let mut cases: Vec<Case> = vec![
        ("survives_malformed_requests", Python, survives_malformed_requests),
        ("bounds_unsent_data", Python, bounds_unsent_data),
        ("bounds_idle_connections", Python, bounds_idle_connections),
    ];
    for (name, python, javascript) in both {
        cases.push((name, Python, python));
        cases.push((name, JavaScript, javascript));
    }
    cases
}

fn limits_bytes(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nprint(len(urllib.request.urlopen('http://127.0.0.1:PLAIN/large').read()))",
        "console.log((await (await fetch('http://127.0.0.1:PLAIN/large')).text()).length)",
    );
    let (report, _) = test_env.run(guest, text, &test_env.all(), &["--max-net-bytes", "100k"])?;
    ensure!(report.outcome() == "limit net_bytes", "{} {}", report.outcome(), report.stderr());
    let transferred =
        report.at("/network/sent").as_u64().unwrap_or(0) + report.at("/network/received").as_u64().unwrap_or(0);
    ensure!(transferred > 50_000 && transferred <= 102_400, "{transferred} bytes were transferred");
    Ok(())
}

/// A body that does not fit into the guest's memory hits the memory limit and is not an error of the request.
fn limits_memory(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nkept = []\nwhile True:\n    kept.append(urllib.request.urlopen('http://127.0.0.1:PLAIN/large').read())",
        "const get = () => fetch('http://127.0.0.1:PLAIN/large').then((answer) => answer.bytes());\n\
         const kept = []; for (;;) kept.push(await Promise.all(Array.from({ length: 100 }, get)));",
    );
    let (report, _) = test_env.run(guest, text, &test_env.all(), &["--memory", "128M"])?;
    ensure!(report.outcome() == "limit memory", "{} {}", report.outcome(), report.stderr());
    Ok(())
}

fn limits_connections(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import socket\nfor n in range(5):\n    socket.create_connection(('127.0.0.1', PLAIN)).close()\n    print(n, flush=True)",
        "for (let n = 0; n < 5; n++) { await (await fetch('http://127.0.0.1:PLAIN/endless')).body.cancel(); console.log(n); }",
    );
    let (report, _) = test_env.run(guest, text, &test_env.all(), &["--max-net-connections", "3"])?;
    ensure!(report.outcome() == "limit net_connections", "{} {}", report.outcome(), report.stderr());
    ensure!(report.stdout() == "0\n1\n2\n", "{:?}", report.stdout());
    Ok(())
}

fn enforces_deadline_during_requests(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PLAIN/never')",
        "await fetch('http://127.0.0.1:PLAIN/never')",
    );
    let (report, _) = test_env.run(guest, text, &test_env.all(), &["--timeout", "500ms"])?;
    ensure!(report.outcome() == "limit wall", "{} {}", report.outcome(), report.stderr());
    Ok(())
}

/// A program makes malformed host calls directly.
fn survives_malformed_requests(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import _host, os, struct
def call(request):
    try:
        return _host.call(request)
    except Exception as error:
        return type(error).__name__
for op in range(256):
    for number in (0, 1, 0xffffffff, 0x80000000):
        call(struct.pack("<BBIII", 1, op, number, number, 0))
        call(struct.pack("<BBIII", 1, op, 7, number, 1) + os.urandom(40))
started = call(struct.pack("<BBIII", 1, 8, 0, 0, 0) + b'{"name": "localhost", "alpn": []}')
machine = struct.unpack("<I", started[1:5])[0]
for number in (0, 1, 41, 0x80000000, 0xffffffff):
    for size in (0, 40, 300000):
        call(struct.pack("<BBIII", 1, 9, machine, number, 0) + os.urandom(size))
call(struct.pack("<BBIII", 1, 5, machine, 0, 0))
call(struct.pack("<BBIII", 1, 8, 0, 0, 0) + b'{"name": "a.example", "alpn": [1]}')
for length in range(14):
    call(b"\x01" * length)
call(struct.pack("<BBIII", 1, 1, 0, 99999, 0) + b"127.0.0.1")
call(struct.pack("<BBIII", 1, 1, 0, 80, 0) + b"\xff\xfe")
call(struct.pack("<BBIII", 1, 2, 1, 0, 0) + b'{"name": "' + b"x" * 100000 + b'", "alpn": []}')
for head in (b'{}', b'{"method": "G\\nT", "url": "http://127.0.0.1:PLAIN/", "headers": [], "streams": false}',
             b'{"method": "GET", "url": "http://127.0.0.1:PLAIN/", "headers": [["a\\r\\nb", "c"]], "streams": false}',
             b'{"method": "GET", "url": "file:///etc/passwd", "headers": [], "streams": false}'):
    answer = call(struct.pack("<BBIII", 1, 16, 0, len(head), 0) + head)
    if isinstance(answer, bytes) and answer[:1] == b"\0":
        reply = call(struct.pack("<BBIII", 1, 18, struct.unpack("<I", answer[1:5])[0], 0, 2000))
        print(reply[:1])
import socket
sockets = []
try:
    while True:
        sockets.append(socket.create_connection(("127.0.0.1", PLAIN)))
except OSError as error:
    print(len(sockets), error.errno != 2)
print("alive")
"#;
    let (report, _) = test_env.run(Python, text, &test_env.all(), &[])?;
    ensure!(report.outcome() == "exited 0", "{} {}", report.outcome(), report.stderr());
    ensure!(report.stdout().ends_with("256 True\nalive\n"), "{:?}", report.stdout());
    ensure!(!report.stdout().contains("b'\\x00'"), "a malformed request was made: {:?}", report.stdout());
    Ok(())
}

/// Start of a program that makes the host calls of exchanges directly.
const EXCHANGES: &str = r#"
import _host, json, struct
START, BODY, NEXT, WAIT, WRITABLE = 16, 17, 18, 20, 1 << 31
def call(op, handle=0, number=0, wait=0, data=b""):
    return bytes(_host.call(struct.pack("<BBIII", 1, op, handle, number, wait) + data) or b"")
def start(url, body=b"", **more):
    head = json.dumps({"method": "POST" if body or more else "GET", "url": url, "headers": [], "streams": False, **more}).encode()
    return call(START, 0, len(head), 100, head + body)
def number(answer):
    return int.from_bytes(answer[1:5], "little")
"#;

/// With a server that never reads, the host holds only a limited amount of unsent data.
fn bounds_unsent_data(test_env: &TestEnvironment) -> Result<()> {
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = silent.local_addr()?.to_string();
    let text = r#"
url, piece, taken = "http://SILENT/", bytes(1 << 20), 0
for _ in range(6):
    handle = number(start(url, streams=True))
    while True:
        if call(BODY, handle, 0, 0, piece) == b"":
            taken += len(piece)
        elif call(WAIT, 0, 0, 150, struct.pack("<I", handle | WRITABLE)) == b"\2":
            break
print(taken)
"#;
    let text = format!("{EXCHANGES}{text}").replace("SILENT", &address);
    let (report, _) = test_env.run(Python, &text, std::slice::from_ref(&address), &[])?;
    ensure!(report.outcome() == "exited 0", "{} {}", report.outcome(), report.stderr());
    let (accepted, sent): (u64, _) =
        (report.stdout().trim().parse()?, report.at("/network/sent").as_u64().unwrap_or(0));
    ensure!(accepted > 1 << 20 && accepted.saturating_sub(sent) < 3 << 20, "of {accepted} bytes, {sent} were sent");

    // Complete bodies for a server that accepts no connection because its queue is full.
    let full = std::net::TcpListener::bind("127.0.0.1:0")?;
    rustix::net::listen(&full, 0)?;
    let address = full.local_addr()?.to_string();
    let _queued = std::net::TcpStream::connect(&address)?;
    let text = r#"
body = bytes(3 << 19)
print(sum(start("http://SILENT/", body)[:1] == b"\0" for _ in range(20)) * len(body))
"#;
    let text = format!("{EXCHANGES}{text}").replace("SILENT", &address);
    let report = test_env.run(Python, &text, &[address], &[])?.0;
    ensure!(report.outcome() == "exited 0", "{} {}", report.outcome(), report.stderr());
    let accepted: u64 = report.stdout().trim().parse()?;
    ensure!((8 << 20..=16 << 20).contains(&accepted), "{accepted} bytes are buffered");
    Ok(())
}

fn bounds_idle_connections(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::on_all_interfaces()?;
    let text = r#"
def finish(handle):
    body = b""
    while (answer := call(NEXT, handle, 0, 5000))[:2] in (b"\0h", b"\0d"):
        body += answer[2:] if answer[1:2] == b"d" else b""
    return body
for wave in range(6):
    places = [f"http://127.0.0.{wave * 8 + number + 1}:PORT/hello" for number in range(8)]
    for handle in [number(start(place)) for place in places for _ in range(8)]:
        assert finish(handle) == b"hello"
# However a host is written.
print(len({finish(number(start(f"http://{host}:PORT/connection"))) for host in ("localhost", "LOCALHOST", "localHost")}))
"#;
    let port = server.address.port();
    let text = format!("{EXCHANGES}{text}").replace("PORT", &port.to_string());
    let grants = [format!("127.0.0.0/8:{port}"), format!("localhost:{port}")];
    let report = test_env.check_prints(Python, &text, &grants, "1\n")?;
    let connection_total = report.at("/network/attempts").as_array().into_iter().flatten();
    let connection_total: u64 = connection_total.filter_map(|attempt| attempt["times"].as_u64()).sum();
    ensure!(connection_total > 300, "{connection_total} connections were made");
    // Connections of ongoing exchanges, and as many idle ones.
    ensure!(server.max_open() < 250, "{} connections were open at one time", server.max_open());
    Ok(())
}
