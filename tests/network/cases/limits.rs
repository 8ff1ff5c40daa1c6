//! Limits, deadlines and hostile words, in both languages.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::{self, JavaScript, Python};

use crate::{Case, Ground};

type Tried = fn(&Ground) -> Result<()>;

pub fn cases() -> Vec<Case> {
    let both: [(&str, Tried, Tried); 4] = [
        ("memory_is_limited", |ground| memory(ground, Python), |ground| memory(ground, JavaScript)),
        ("bytes_are_limited", |ground| bytes(ground, Python), |ground| bytes(ground, JavaScript)),
        ("connections_are_limited", |ground| connections(ground, Python), |ground| connections(ground, JavaScript)),
        ("the_deadline_holds_while_it_waits", |ground| deadline(ground, Python), |ground| deadline(ground, JavaScript)),
    ];
    let mut cases: Vec<Case> = vec![("requests_of_any_form_are_survived", Python, hostile)];
    for (name, python, javascript) in both {
        cases.push((name, Python, python));
        cases.push((name, JavaScript, javascript));
    }
    cases
}

fn bytes(ground: &Ground, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nprint(len(urllib.request.urlopen('http://127.0.0.1:PLAIN/large').read()))",
        "console.log((await (await fetch('http://127.0.0.1:PLAIN/large')).text()).length)",
    );
    let (report, _) = ground.run(guest, text, &ground.all(), &["--max-net-bytes", "100k"])?;
    ensure!(report.outcome() == "limit net_bytes", "{} {}", report.outcome(), report.stderr());
    let moved = report.at("/network/sent").as_u64().unwrap_or(0) + report.at("/network/received").as_u64().unwrap_or(0);
    ensure!(moved > 50_000 && moved <= 102_400, "{moved} bytes went over");
    Ok(())
}

/// A body that does not fit into the guest's memory is the limit's matter, and not the request's.
fn memory(ground: &Ground, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nkept = []\nwhile True:\n    kept.append(urllib.request.urlopen('http://127.0.0.1:PLAIN/large').read())",
        "const get = () => fetch('http://127.0.0.1:PLAIN/large').then((answer) => answer.bytes());\n\
         const kept = []; for (;;) kept.push(await Promise.all(Array.from({ length: 100 }, get)));",
    );
    let (report, _) = ground.run(guest, text, &ground.all(), &["--memory", "128M"])?;
    ensure!(report.outcome() == "limit memory", "{} {}", report.outcome(), report.stderr());
    Ok(())
}

fn connections(ground: &Ground, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import socket\nfor n in range(5):\n    socket.create_connection(('127.0.0.1', PLAIN)).close()\n    print(n, flush=True)",
        "for (let n = 0; n < 5; n++) { await (await fetch('http://127.0.0.1:PLAIN/endless')).body.cancel(); console.log(n); }",
    );
    let (report, _) = ground.run(guest, text, &ground.all(), &["--max-net-connections", "3"])?;
    ensure!(report.outcome() == "limit net_connections", "{} {}", report.outcome(), report.stderr());
    ensure!(report.stdout() == "0\n1\n2\n", "{:?}", report.stdout());
    Ok(())
}

fn deadline(ground: &Ground, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PLAIN/never')",
        "await fetch('http://127.0.0.1:PLAIN/never')",
    );
    let (report, _) = ground.run(guest, text, &ground.all(), &["--timeout", "500ms"])?;
    ensure!(report.outcome() == "limit wall", "{} {}", report.outcome(), report.stderr());
    Ok(())
}

/// A program that speaks with the host itself.
fn hostile(ground: &Ground) -> Result<()> {
    let text = r#"
import _host, os, struct
def ask(request):
    try:
        return _host.call(request)
    except Exception as error:
        return type(error).__name__
for op in range(256):
    for number in (0, 1, 0xffffffff, 0x80000000):
        ask(struct.pack("<BBIII", 1, op, number, number, 0))
        ask(struct.pack("<BBIII", 1, op, 7, number, 1) + os.urandom(40))
begun = ask(struct.pack("<BBIII", 1, 8, 0, 0, 0) + b'{"name": "localhost", "alpn": []}')
machine = struct.unpack("<I", begun[1:5])[0]
for number in (0, 1, 41, 0x80000000, 0xffffffff):
    for size in (0, 40, 300000):
        ask(struct.pack("<BBIII", 1, 9, machine, number, 0) + os.urandom(size))
ask(struct.pack("<BBIII", 1, 5, machine, 0, 0))
ask(struct.pack("<BBIII", 1, 8, 0, 0, 0) + b'{"name": "a.example", "alpn": [1]}')
for length in range(14):
    ask(b"\x01" * length)
ask(struct.pack("<BBIII", 1, 1, 0, 99999, 0) + b"127.0.0.1")
ask(struct.pack("<BBIII", 1, 1, 0, 80, 0) + b"\xff\xfe")
ask(struct.pack("<BBIII", 1, 2, 1, 0, 0) + b'{"name": "' + b"x" * 100000 + b'", "alpn": []}')
for head in (b'{}', b'{"method": "G\\nT", "url": "http://127.0.0.1:PLAIN/", "headers": [], "streams": false}',
             b'{"method": "GET", "url": "http://127.0.0.1:PLAIN/", "headers": [["a\\r\\nb", "c"]], "streams": false}',
             b'{"method": "GET", "url": "file:///etc/passwd", "headers": [], "streams": false}'):
    answer = ask(struct.pack("<BBIII", 1, 16, 0, len(head), 0) + head)
    if isinstance(answer, bytes) and answer[:1] == b"\0":
        told = ask(struct.pack("<BBIII", 1, 18, struct.unpack("<I", answer[1:5])[0], 0, 2000))
        print(told[:1])
import socket
held = []
try:
    while True:
        held.append(socket.create_connection(("127.0.0.1", PLAIN)))
except OSError as error:
    print(len(held), error.errno != 2)
print("alive")
"#;
    let (report, _) = ground.run(Python, text, &ground.all(), &[])?;
    ensure!(report.outcome() == "exited 0", "{} {}", report.outcome(), report.stderr());
    ensure!(report.stdout().ends_with("64 True\nalive\n"), "{:?}", report.stdout());
    ensure!(!report.stdout().contains("b'\\x00'"), "a malformed request was made: {:?}", report.stdout());
    Ok(())
}
