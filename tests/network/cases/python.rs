//! Python: clients of the standard library.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::Python;

use crate::{Case, TestEnvironment};

pub fn cases() -> Vec<Case> {
    vec![
        ("get_and_post", Python, get_and_post),
        ("reads_all_kinds_of_bodies", Python, reads_all_kinds_of_bodies),
        ("reuses_connections", Python, reuses_connections),
        ("checks_redirect_targets", Python, checks_redirect_targets),
        ("uses_host_tls", Python, uses_host_tls),
        ("honours_tls_versions_of_context", Python, honours_tls_versions_of_context),
        ("rejects_misnamed_certificate", Python, rejects_misnamed_certificate),
        ("rejects_untrusted_authority", Python, rejects_untrusted_authority),
        ("verification_cannot_be_disabled", Python, verification_cannot_be_disabled),
        ("rejects_ungranted_hosts_by_name", Python, rejects_ungranted_hosts_by_name),
        ("parses_headers_like_email_parser", Python, parses_headers_like_email_parser),
        ("raises_standard_errors", Python, raises_standard_errors),
        ("sockets_and_select", Python, sockets_and_select),
        ("asyncio", Python, asyncio),
        ("asyncio_start_tls", Python, asyncio_start_tls),
        ("tls_memory_bio", Python, tls_memory_bio),
        ("asyncio_verifies_certificates", Python, asyncio_verifies_certificates),
        ("reports_missing_network_without_grant", Python, reports_missing_network_without_grant),
    ]
}

fn get_and_post(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import urllib.request, http.client
with urllib.request.urlopen("http://127.0.0.1:PLAIN/hello") as answer:
    print(answer.status, answer.headers["X-Greeting"], answer.read())
request = urllib.request.Request("http://127.0.0.1:PLAIN/echo", data=b"some bytes", method="PUT")
with urllib.request.urlopen(request) as answer:
    print(answer.headers["X-Method"], answer.read())
connection = http.client.HTTPConnection("127.0.0.1", PLAIN, timeout=5)
connection.request("POST", "/echo", body=iter([b"a", b"bc"]), headers={"Transfer-Encoding": "chunked"}, encode_chunked=True)
print(connection.getresponse().read())
"#;
    let report =
        test_env.check_prints(Python, text, &test_env.all(), "200 hello b'hello'\nPUT b'some bytes'\nb'abc'\n")?;
    let attempts = report.at("/network/attempts").as_array().map_or(0, Vec::len);
    let times = report.at("/network/attempts/0/times");
    ensure!(attempts == 1 && times == 3, "{attempts} kinds of attempts are listed, {times} of the first");
    ensure!(report.at("/network/attempts/0/verdict") == "allowed", "{}", report.at("/network"));
    ensure!(report.at("/network/attempts/0/address") == "127.0.0.1", "{}", report.at("/network"));
    ensure!(report.at("/network/received").as_u64() > Some(100), "{}", report.at("/network"));
    Ok(())
}

fn reads_all_kinds_of_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import urllib.request
base = "http://127.0.0.1:PLAIN"
print(urllib.request.urlopen(base + "/pieces").read())
print(len(urllib.request.urlopen(base + "/large").read()))
body = bytes(range(256)) * 12000
print(urllib.request.urlopen(base + "/echo", data=body).read() == body)
answer = urllib.request.urlopen(base + "/endless")
print([answer.readline() for _ in range(3)])
answer.close()
"#;
    let expected = "b'one two three'\n1048576\nTrue\n[b'tick\\n', b'tick\\n', b'tick\\n']\n";
    test_env.check_prints(Python, text, &test_env.all(), expected).map(drop)
}

fn reuses_connections(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import http.client
connection = http.client.HTTPConnection("127.0.0.1", PLAIN)
numbers = set()
for _ in range(5):
    connection.request("GET", "/connection")
    numbers.add(connection.getresponse().read())
print(len(numbers))
"#;
    test_env.check_prints(Python, text, &test_env.all(), "1\n").map(drop)
}

fn checks_redirect_targets(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import urllib.request
base = "http://127.0.0.1:PLAIN"
print(urllib.request.urlopen(base + "/redirect?/hello").read())
try:
    urllib.request.urlopen(base + "/redirect?http://127.0.0.1:OTHER/hello")
except OSError as error:
    print(type(error.reason).__name__, "--net 127.0.0.1:OTHER" in str(error.reason))
"#;
    let (other, text) = test_env.other(text)?;
    let report = test_env.check_prints(Python, &text, &test_env.all(), "b'hello'\nPermissionError True\n")?;
    ensure!(other.count()? == 0, "a redirect reached a host without a grant");
    ensure!(report.at("/network/attempts/1/verdict") == "refused", "{}", report.at("/network"));
    ensure!(
        report.at("/denials/0/hint").as_str().is_some_and(|hint| hint.contains("--net")),
        "{}",
        report.at("/denials")
    );
    Ok(())
}

fn uses_host_tls(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import http.client, ssl, urllib.request
print(urllib.request.urlopen("https://localhost:TLS/hello").read())
connection = http.client.HTTPSConnection("localhost", TLS, context=ssl.create_default_context(), timeout=5)
connection.request("GET", "/large")
print(connection.sock.version(), connection.sock.cipher()[0][:4], len(connection.sock.getpeercert(True)) > 100)
print(len(connection.getresponse().read()))
"#;
    test_env.check_prints(Python, text, &test_env.all(), "b'hello'\nTLSv1.3 TLS1 True\n1048576\n").map(drop)
}

fn honours_tls_versions_of_context(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio, socket, ssl
# Versions 1.2 and 1.3, and the option that takes the second away.
two, three, without = 0x303, 0x304, 1 << 29
def context(first=None, last=None, off=0):
    made = ssl.create_default_context()
    made.minimum_version = first or made.minimum_version
    made.maximum_version = last or made.maximum_version
    made.options |= off
    return made
async def apart(context):
    _, writer = await asyncio.open_connection("localhost", TLS, ssl=context)
    writer.close()
    return writer.get_extra_info("ssl_object").version()
def versions(context):
    sock = context.wrap_socket(socket.create_connection(("localhost", TLS)), server_hostname="localhost")
    return sock.version(), asyncio.run(apart(context))
print(versions(context(last=two)), versions(context(three)), versions(context()), versions(context(off=without)))
try:
    versions(context(three, off=without))
except ssl.SSLError as error:
    print(error.reason)
"#;
    let [two, three] = [2, 3].map(|minor| format!("('TLSv1.{minor}', 'TLSv1.{minor}')"));
    let expected = format!("{two} {three} {three} {two}\nNO_PROTOCOLS_AVAILABLE\n");
    test_env.check_prints(Python, text, &test_env.all(), &expected).map(drop)
}

fn rejects_misnamed_certificate(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import ssl, urllib.error, urllib.request
try:
    urllib.request.urlopen("https://localhost:MISNAMED/hello")
except urllib.error.URLError as error:
    print(type(error.reason) is ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED" in str(error.reason))
"#;
    test_env.check_prints(Python, text, &test_env.all(), "True True\n").map(drop)
}

fn rejects_untrusted_authority(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("https://localhost:TLS/hello").read())
except urllib.error.URLError as error:
    print(type(error.reason).__name__)
"#;
    let trusted = test_env.kit.folder()?;
    let roots = trusted.path().join("roots.pem");
    std::fs::write(&roots, test_env.misnamed.certificate.as_deref().unwrap_or_default())?;
    let (report, _) = test_env.run_trusting(&roots, Python, text, &test_env.all(), &[])?;
    ensure!(report.stdout() == "SSLCertVerificationError\n", "{:?} {}", report.stdout(), report.stderr());
    Ok(())
}

fn verification_cannot_be_disabled(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import ssl, socket, urllib.request
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
for made in (context, ssl._create_unverified_context()):
    try:
        print(urllib.request.urlopen("https://localhost:MISNAMED/hello", context=made).read())
    except OSError as error:
        print(type(error.reason).__name__)
# Another name than was connected to has to be granted too.
try:
    plain = socket.create_connection(("localhost", MISNAMED))
    context.wrap_socket(plain, server_hostname="other.example")
except OSError as error:
    print(type(error).__name__)
"#;
    let expected = "SSLCertVerificationError\nSSLCertVerificationError\nPermissionError\n";
    test_env.check_prints(Python, text, &test_env.all(), expected).map(drop)
}

fn rejects_ungranted_hosts_by_name(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import socket, urllib.request
for url in ("http://example.org/", "http://127.0.0.1:OTHER/", "http://[::1]:PLAIN/", "http://2130706433:PLAIN/", "http://169.254.169.254/"):
    try:
        urllib.request.urlopen(url)
    except OSError as error:
        print(type(error.reason).__name__, error.reason.errno == 2)
try:
    urllib.request.urlopen("http://example.org:81/")
except OSError as error:
    print("--net example.org:81" in str(error))
"#;
    let (other, text) = test_env.other(text)?;
    let report =
        test_env.check_prints(Python, &text, &test_env.all(), &("PermissionError True\n".repeat(5) + "True\n"))?;
    ensure!(other.count()? == 0, "a port without a grant was contacted");
    let verdicts = report.at("/network/attempts").as_array().cloned().unwrap_or_default();
    ensure!(verdicts.len() == 6 && verdicts.iter().all(|one| one["verdict"] == "refused"), "{verdicts:?}");
    Ok(())
}

fn parses_headers_like_email_parser(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import email.parser, http.client, random
def fields(message):
    payload = message.get_payload()
    inner = payload if isinstance(payload, str) else [fields(part) for part in payload]
    rest = {name: value for name, value in vars(message).items() if name not in ("_payload", "defects")}
    return type(message), rest, inner, [repr(defect) for defect in message.defects]
parts = [b"Content-Type", b"X-a", b"Set-Cookie", b"From ", b"", b" ", b":", b"a b", b"text/plain", b"Multipart/mixed; boundary=x", b"message/rfc822",
    b"\r", b"\n", b"\t", b"\xe9", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0", b"a=b; c", b"--x", b"\x00", b"\x7f", b"=?utf-8?q?a?="]
pick = random.Random(7).choice
count = random.Random(8).randrange
for turn in range(3000):
    lines = []
    for _ in range(count(5)):
        name = pick(parts[:3]) + b":" + pick([b"", b" ", b" \t"]) if turn % 2 else b""
        lines.append(name + b"".join(pick(parts) for _ in range(count(4))) + pick([b"\r\n", b"\r\n", b"\r\n", b"\n"]))
    by_mail = email.parser.Parser(_class=http.client.HTTPMessage).parsestr(b"".join(lines).decode("iso-8859-1"))
    assert fields(http.client._parse_header_lines(lines)) == fields(by_mail), lines
message = http.client._parse_header_lines([b"A: 1\r\n", b"a:2 \r\n", b"B:\r\n"])
print(message.items(), message.get_all("A"), message["b"] == "")
print(http.client._parse_header_lines.__module__)
"#;
    let expected = "[('A', '1'), ('a', '2 '), ('B', '')] ['1', '2 '] True\n_codebox.headers\n";
    test_env.check_prints(Python, text, &test_env.all(), expected).map(drop)
}

fn raises_standard_errors(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import socket, urllib.error, urllib.request
def reason(url, **more):
    try:
        urllib.request.urlopen(url, **more)
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except urllib.error.URLError as error:
        return type(error.reason).__name__
    except OSError as error:
        return type(error).__name__
base = "http://127.0.0.1:PLAIN"
print(reason("http://127.0.0.1:1/"))
print(reason("http://no-such-host.invalid/"))
print(reason(base + "/never", timeout=0.2))
print(reason(base + "/missing"))
try:
    socket.create_connection(("127.0.0.1", 1), 1)
except ConnectionRefusedError as error:
    print(error.strerror)
"#;
    let mut grants = test_env.all();
    grants.extend(["127.0.0.1:1".to_owned(), "no-such-host.invalid".to_owned()]);
    let expected = "ConnectionRefusedError\ngaierror\nTimeoutError\n(404, b'nothing')\nConnection refused\n";
    test_env.check_prints(Python, text, &grants, expected).map(drop)
}

fn sockets_and_select(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import select, selectors, socket
with socket.socket() as sock:
    sock.settimeout(5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(sock.connect_ex(("127.0.0.1", PLAIN)), sock.getpeername())
    print(select.select([sock], [], [], 0.01), select.select([sock], [sock], [])[1] == [sock])
    sock.sendall(b"GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n")
    print(select.select([sock], [], [])[0] == [sock])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    print(poll.poll(1000) == [(sock.fileno(), select.POLLIN)])
    print(sock.recv(4, socket.MSG_PEEK), sock.recv(8))
    with sock.makefile("rb") as file:
        print(file.readline(), file.read()[-5:])
    sock.setblocking(False)
    print(sock.recv(10))
with socket.create_connection(("127.0.0.1", PLAIN)) as sock:
    sock.shutdown(1)
    print(sock.recv(1), socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)
print(socket.gethostbyname_ex("localhost"))
for use in (socket.socketpair, lambda: socket.create_server(("", 0)), lambda: socket.gethostbyaddr("127.0.0.1")):
    try:
        use()
    except OSError as error:
        print("requires a container" in str(error))
for use in (lambda: socket.socket().bind(("", 80)), lambda: socket.socket(type=socket.SOCK_DGRAM), lambda: socket.socket().recv(1)):
    try:
        use()
    except OSError as error:
        print(type(error).__name__)
"#;
    let address = test_env.plain.address;
    let expected = format!(
        "0 ('127.0.0.1', {})\n([], [], []) True\nTrue\nTrue\nb'HTTP' b'HTTP/1.1'\nb' 200 OK\\r\\n' b'hello'\nb''\nb'' 0 1 2\n('localhost', [], ['127.0.0.1'])\nTrue\nTrue\nTrue\nPermissionError\nPermissionError\nOSError\n",
        address.port()
    );
    test_env.check_prints(Python, text, &test_env.all(), &expected).map(drop)
}

fn asyncio(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio
async def get(port, path, **more):
    host = "localhost" if more else "127.0.0.1"
    reader, writer = await asyncio.open_connection(host, port, **more)
    writer.write(f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.partition(b"\r\n\r\n")[2]
async def main():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1
    ticking = asyncio.create_task(tick())
    print(len(await get(PLAIN, "/pieces")), await asyncio.gather(get(PLAIN, "/hello"), get(TLS, "/hello", ssl=True)))
    print(ticks > 2)
asyncio.run(main())
"#;
    test_env
        .check_prints(Python, text, &test_env.all(), "33\n[b'hello', b'hello']\nTrue\n".replacen('\n', " ", 1).as_str())
        .map(drop)
}

/// Upgrades a plain connection to TLS and checks the reported TLS properties.
fn asyncio_start_tls(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio, ssl
async def main():
    reader, writer = await asyncio.open_connection("localhost", TLS)
    await writer.start_tls(ssl.create_default_context(), server_hostname="localhost")
    tls = writer.get_extra_info("ssl_object")
    print(tls.version(), tls.cipher()[0][:4], len(tls.getpeercert(True)) > 100, writer.get_extra_info("peercert"))
    for path in ("/hello", "/large"):
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        print(len(await reader.readexactly(length)))
    body = bytes(range(256)) * 4000
    writer.write(b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await reader.readuntil(b"\r\n\r\n")
    print(await reader.readexactly(len(body)) == body)
    writer.close()
asyncio.run(main())
"#;
    let expected = "TLSv1.3 TLS1 True {'subjectAltName': (('DNS', 'localhost'),)}\n5\n1048576\nTrue\n";
    test_env.check_prints(Python, text, &test_env.all(), expected).map(drop)
}

/// Transfers the TLS bytes in the program itself.
fn tls_memory_bio(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import socket, ssl
context = ssl.create_default_context()
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
def kind(use, *words):
    try:
        return use(*words)
    except (ssl.SSLError, ValueError) as error:
        return type(error).__name__, error.reason if isinstance(error, ssl.SSLError) else str(error)
print(kind(tls.read, 5), outgoing.pending > 100, tls.version(), kind(tls.getpeercert), kind(tls.unwrap)[0])
sock = socket.create_connection(("localhost", TLS))
def carry(use, *words):
    while True:
        try:
            return use(*words)
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(1000))
carry(tls.do_handshake)
print(tls.version(), tls.selected_alpn_protocol(), tls.server_hostname, tls.server_side)
print(tls.write(b"GET /hello HTTP/1.1\r\n\r\n"), outgoing.pending > 25)
first = carry(tls.read, 5)
print(first, tls.pending() > 0, tls.read(0), kind(tls.read, -1))
buffer = bytearray(tls.pending())
print(tls.read(len(buffer), buffer), buffer[-5:], kind(tls.read, 5))
print(kind(tls.unwrap), outgoing.pending > 0, kind(tls.write, b"x"))
sock.sendall(outgoing.read())
while data := sock.recv(1000):
    incoming.write(data)
incoming.write_eof()
print(kind(tls.unwrap), kind(tls.read, 5), kind(incoming.write, b"x"))

incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
other = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
print(kind(other.do_handshake))
incoming.write(b"HTTP/1.1 400 Bad Request")
print(kind(other.do_handshake)[0], kind(other.do_handshake)[0])
print(kind(context.wrap_bio, incoming, outgoing), kind(context.wrap_bio, incoming, outgoing, True)[0])
lax = ssl.create_default_context()
lax.check_hostname = False
print("pass server_hostname" in kind(lax.wrap_bio, incoming, outgoing)[1])
for name in ("other.example", "127.0.0.2"):
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name)
    except PermissionError as error:
        print("--net" in str(error))
held = []
try:
    while True:
        held.append(context.wrap_bio(incoming, outgoing, server_hostname="localhost"))
except OSError as error:
    print(len(held), error.errno == __import__("errno").EMFILE)
held.clear()
print(type(context.wrap_bio(incoming, outgoing, server_hostname="localhost")).__name__)
"#;
    let expected = "('SSLWantReadError', None) True None ('ValueError', 'handshake not done yet') SSLError\n\
        TLSv1.3 None localhost False\n23 True\nb'HTTP/' True b'' ('ValueError', 'size should not be negative')\n\
        57 bytearray(b'hello') ('SSLWantReadError', None)\n\
        ('SSLWantReadError', None) True ('SSLError', 'PROTOCOL_IS_SHUTDOWN')\n\
        None ('SSLZeroReturnError', None) ('SSLError', None)\n\
        ('SSLWantReadError', None)\nSSLError SSLEOFError\n\
        ('ValueError', 'check_hostname requires server_hostname') ValueError\nTrue\nTrue\nTrue\n253 True\nSSLObject\n";
    test_env.check_prints(Python, text, &test_env.all(), expected).map(drop)
}

fn asyncio_verifies_certificates(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio, ssl
lax = ssl.create_default_context()
lax.check_hostname = False
lax.verify_mode = ssl.CERT_NONE
async def kind(port, host="localhost", **more):
    try:
        await asyncio.open_connection(host, port, **more)
    except OSError as error:
        return type(error).__name__
async def main():
    print(await asyncio.gather(kind(MISNAMED, ssl=True), kind(MISNAMED, ssl=lax), kind(TLS, ssl=True, server_hostname="other.example")))
    # An unanswered handshake does not block other connections.
    slow = asyncio.create_task(kind(OTHER, ssl=lax, ssl_handshake_timeout=0.2))
    ticks = 0
    while not slow.done():
        await asyncio.sleep(0.01)
        ticks += 1
    print(slow.result(), ticks > 1)
asyncio.run(main())
"#;
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port();
    let mut grants = test_env.all();
    grants.push(format!("localhost:{port}"));
    let expected = "['SSLCertVerificationError', 'SSLCertVerificationError', 'PermissionError']\n\
        ConnectionAbortedError True\n";
    test_env.check_prints(Python, &text.replace("OTHER", &port.to_string()), &grants, expected).map(drop)
}

fn reports_missing_network_without_grant(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import http.client, socket, sys, urllib.request
print("ssl" in sys.modules)
try:
    import ssl
except ModuleNotFoundError as error:
    print(error.name)
try:
    urllib.request.urlopen("http://127.0.0.1:OTHER/hello")
except OSError as error:
    print(error.reason)
try:
    socket.getaddrinfo("example.org", 80)
except socket.gaierror as error:
    print(error)
# Past the prelude too.
import _host, struct
for op in (1, 8, 16):
    print(_host.call(struct.pack("<BBIII", 1, op, 0, OTHER, 0) + b"127.0.0.1").decode())
"#;
    let (other, text) = test_env.other(text)?;
    let (report, _) = test_env.run(Python, &text, &[], &[])?;
    let refusal = "network access is not granted";
    ensure!(report.outcome() == "exited 0" && report.stdout().matches(refusal).count() == 5, "{:?}", report.json());
    ensure!(
        report.stdout().starts_with("False\n_ssl\n") || report.stdout().starts_with("False\nssl\n"),
        "{}",
        report.stdout()
    );
    ensure!(other.count()? == 0, "the host was contacted");
    ensure!(report.missing().contains(&"network sockets"), "{:?}", report.missing());
    Ok(())
}
