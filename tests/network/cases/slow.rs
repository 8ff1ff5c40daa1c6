//! Python programs that send more than the peer accepts at once; all data arrives intact.

use anyhow::Result;
use codebox_testkit::Guest::Python;

use crate::{Case, TestEnvironment, slow};

pub fn cases() -> Vec<Case> {
    vec![
        ("event_loop_sends_all_data", Python, event_loop_sends_all_data),
        ("nonblocking_send_delivers_all_data", Python, nonblocking_send_delivers_all_data),
        ("send_after_timeout_delivers_all_data", Python, send_after_timeout_delivers_all_data),
        ("nonblocking_tls_send_delivers_all_data", Python, nonblocking_tls_send_delivers_all_data),
        ("select_waits_until_writable", Python, select_waits_until_writable),
    ]
}

/// Start of every program here.
const DATA: &str = r#"
import hashlib, select, socket, ssl, time
data = bytes(number * 7 & 255 for number in range(100003)) * 150
head = b"%d\n" % len(data)
wanted = hashlib.sha256(data).hexdigest().encode() + b"\n"
"#;

/// Runs a program with the ports of slow servers: `SLOW` of a plain one, `SEALED` of one with TLS.
fn check_prints(test_env: &TestEnvironment, text: &str, expected: &str) -> Result<()> {
    let (plain_port, tls_port) = (slow::start(None)?, slow::start(test_env.tls.tls.clone())?);
    let text =
        format!("{DATA}{text}").replace("SLOW", &plain_port.to_string()).replace("SEALED", &tls_port.to_string());
    let grants = [plain_port, tls_port].map(|port| format!("localhost:{port}"));
    test_env.check_prints(Python, &text, &grants, expected).map(drop)
}

fn event_loop_sends_all_data(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio
async def main():
    for port, tls in (SLOW, None), (SEALED, ssl.create_default_context()):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)
        writer.write(head)
        writer.write(data)
        await writer.drain()
        print(await reader.readline() == wanted)
        writer.close()
asyncio.run(main())
"#;
    check_prints(test_env, text, "True\nTrue\n")
}

fn nonblocking_send_delivers_all_data(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
sock = socket.create_connection(("localhost", SLOW))
sock.sendall(head)
sock.setblocking(False)
at = late = 0
while at < len(data):
    try:
        at += sock.send(data[at:at + (1 << 20)])
    except BlockingIOError:
        late += 1
        time.sleep(0.01)
sock.setblocking(True)
print(sock.recv(100) == wanted, late > 0)
"#;
    check_prints(test_env, text, "True True\n")
}

fn send_after_timeout_delivers_all_data(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
sealed = ssl.create_default_context().wrap_socket(socket.create_connection(("localhost", SEALED)), server_hostname="localhost")
for sock in socket.create_connection(("localhost", SLOW)), sealed:
    sock.sendall(head)
    sock.settimeout(0.05)
    at = late = 0
    while at < len(data):
        try:
            at += sock.send(data[at:at + (1 << 20)])
        except TimeoutError:
            late += 1
    sock.settimeout(None)
    print(sock.recv(100) == wanted, late > 0)
with socket.create_connection(("localhost", SLOW), 0.2) as sock:
    sock.sendall(head)
    try:
        sock.sendall(data)
    except TimeoutError as error:
        print(error)
with socket.create_connection(("localhost", SLOW), 10) as sock:
    sock.sendall(head + data)
    print(sock.recv(100) == wanted)
"#;
    check_prints(test_env, text, "True True\nTrue True\ntimed out\nTrue\n")
}

fn nonblocking_tls_send_delivers_all_data(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
sock = ssl.create_default_context().wrap_socket(socket.create_connection(("localhost", SEALED)), server_hostname="localhost")
sock.sendall(head)
sock.setblocking(False)
at = late = 0
while at < len(data):
    try:
        at += sock.send(data[at:at + 100000])
    except ssl.SSLWantWriteError:
        late += 1
        select.select([], [sock], [])
sock.settimeout(10)
print(sock.recv(100) == wanted, late > 0)
"#;
    check_prints(test_env, text, "True True\n")
}

fn select_waits_until_writable(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
sock = socket.create_connection(("localhost", SLOW))
sock.sendall(head)
sock.setblocking(False)
at = 0
while select.select([], [sock], [], 0.05)[1]:
    try:
        at += sock.send(data[at:at + (1 << 20)])
    except BlockingIOError:
        pass
print(0 < at < len(data))
poll = select.poll()
poll.register(sock, select.POLLIN | select.POLLOUT)
print(poll.poll(1), poll.poll(10000) == [(sock.fileno(), select.POLLOUT)])
"#;
    check_prints(test_env, text, "True\n[] True\n")
}
