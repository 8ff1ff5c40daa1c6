//! Python: the standard library's clients.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::Python;

use crate::{Case, Ground};

pub fn cases() -> Vec<Case> {
    vec![
        ("get_and_post", Python, get_and_post),
        ("bodies_of_all_kinds", Python, bodies),
        ("a_connection_serves_many_requests", Python, kept),
        ("redirects_are_followed_and_judged_again", Python, redirects),
        ("tls_is_the_hosts", Python, tls),
        ("a_certificate_that_does_not_hold", Python, certificates),
        ("an_authority_that_the_host_does_not_trust", Python, untrusted),
        ("verification_cannot_be_switched_off", Python, unverified),
        ("what_is_not_granted_is_refused_by_name", Python, refused),
        ("errors_are_the_interpreters_own", Python, errors),
        ("sockets_and_select", Python, sockets),
        ("asyncio", Python, asynchronous),
        ("without_a_grant_nothing_has_changed", Python, ungranted),
    ]
}

fn get_and_post(ground: &Ground) -> Result<()> {
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
    let report = ground.prints(Python, text, &ground.all(), "200 hello b'hello'\nPUT b'some bytes'\nb'abc'\n")?;
    let attempts = report.at("/network/attempts").as_array().map_or(0, Vec::len);
    let times = report.at("/network/attempts/0/times");
    ensure!(attempts == 1 && times == 3, "{attempts} kinds of attempts are listed, {times} of the first");
    ensure!(report.at("/network/attempts/0/verdict") == "allowed", "{}", report.at("/network"));
    ensure!(report.at("/network/attempts/0/address") == "127.0.0.1", "{}", report.at("/network"));
    ensure!(report.at("/network/received").as_u64() > Some(100), "{}", report.at("/network"));
    Ok(())
}

fn bodies(ground: &Ground) -> Result<()> {
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
    let wanted = "b'one two three'\n1048576\nTrue\n[b'tick\\n', b'tick\\n', b'tick\\n']\n";
    ground.prints(Python, text, &ground.all(), wanted).map(drop)
}

fn kept(ground: &Ground) -> Result<()> {
    let text = r#"
import http.client
connection = http.client.HTTPConnection("127.0.0.1", PLAIN)
numbers = set()
for _ in range(5):
    connection.request("GET", "/connection")
    numbers.add(connection.getresponse().read())
print(len(numbers))
"#;
    ground.prints(Python, text, &ground.all(), "1\n").map(drop)
}

fn redirects(ground: &Ground) -> Result<()> {
    let text = r#"
import urllib.request
base = "http://127.0.0.1:PLAIN"
print(urllib.request.urlopen(base + "/redirect?/hello").read())
try:
    urllib.request.urlopen(base + "/redirect?http://127.0.0.1:OTHER/hello")
except OSError as error:
    print(type(error.reason).__name__, "--net 127.0.0.1:OTHER" in str(error.reason))
"#;
    let (other, text) = ground.other(text)?;
    let report = ground.prints(Python, &text, &ground.all(), "b'hello'\nPermissionError True\n")?;
    ensure!(other.count()? == 0, "a redirect led to where nothing was granted");
    ensure!(report.at("/network/attempts/1/verdict") == "refused", "{}", report.at("/network"));
    ensure!(
        report.at("/denials/0/hint").as_str().is_some_and(|hint| hint.contains("--net")),
        "{}",
        report.at("/denials")
    );
    Ok(())
}

fn tls(ground: &Ground) -> Result<()> {
    let text = r#"
import http.client, ssl, urllib.request
print(urllib.request.urlopen("https://localhost:TLS/hello").read())
connection = http.client.HTTPSConnection("localhost", TLS, context=ssl.create_default_context(), timeout=5)
connection.request("GET", "/large")
print(connection.sock.version(), connection.sock.cipher()[0][:4], len(connection.sock.getpeercert(True)) > 100)
print(len(connection.getresponse().read()))
"#;
    ground.prints(Python, text, &ground.all(), "b'hello'\nTLSv1.3 TLS1 True\n1048576\n").map(drop)
}

fn certificates(ground: &Ground) -> Result<()> {
    let text = r#"
import ssl, urllib.error, urllib.request
try:
    urllib.request.urlopen("https://localhost:MISNAMED/hello")
except urllib.error.URLError as error:
    print(type(error.reason) is ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED" in str(error.reason))
"#;
    ground.prints(Python, text, &ground.all(), "True True\n").map(drop)
}

fn untrusted(ground: &Ground) -> Result<()> {
    let text = r#"
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("https://localhost:TLS/hello").read())
except urllib.error.URLError as error:
    print(type(error.reason).__name__)
"#;
    let trusted = ground.kit.folder()?;
    let roots = trusted.path().join("roots.pem");
    std::fs::write(&roots, ground.misnamed.certificate.as_deref().unwrap_or_default())?;
    let (report, _) = ground.run_trusting(&roots, Python, text, (&ground.all(), &[]))?;
    ensure!(report.stdout() == "SSLCertVerificationError\n", "{:?} {}", report.stdout(), report.stderr());
    Ok(())
}

fn unverified(ground: &Ground) -> Result<()> {
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
    let wanted = "SSLCertVerificationError\nSSLCertVerificationError\nPermissionError\n";
    ground.prints(Python, text, &ground.all(), wanted).map(drop)
}

fn refused(ground: &Ground) -> Result<()> {
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
    let (other, text) = ground.other(text)?;
    let report = ground.prints(Python, &text, &ground.all(), &("PermissionError True\n".repeat(5) + "True\n"))?;
    ensure!(other.count()? == 0, "a port that was not granted was connected to");
    let verdicts = report.at("/network/attempts").as_array().cloned().unwrap_or_default();
    ensure!(verdicts.len() == 6 && verdicts.iter().all(|one| one["verdict"] == "refused"), "{verdicts:?}");
    Ok(())
}

fn errors(ground: &Ground) -> Result<()> {
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
    let mut grants = ground.all();
    grants.extend(["127.0.0.1:1".to_owned(), "no-such-host.invalid".to_owned()]);
    let wanted = "ConnectionRefusedError\ngaierror\nTimeoutError\n(404, b'nothing')\nConnection refused\n";
    ground.prints(Python, text, &grants, wanted).map(drop)
}

fn sockets(ground: &Ground) -> Result<()> {
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
for use in (lambda: socket.socket().bind(("", 80)), lambda: socket.socket(type=socket.SOCK_DGRAM), lambda: socket.socket().recv(1)):
    try:
        use()
    except OSError as error:
        print(type(error).__name__)
"#;
    let address = ground.plain.address;
    let wanted = format!(
        "0 ('127.0.0.1', {})\n([], [], []) True\nTrue\nTrue\nb'HTTP' b'HTTP/1.1'\nb' 200 OK\\r\\n' b'hello'\nb''\nPermissionError\nPermissionError\nOSError\n",
        address.port()
    );
    ground.prints(Python, text, &ground.all(), &wanted).map(drop)
}

fn asynchronous(ground: &Ground) -> Result<()> {
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
    ground
        .prints(Python, text, &ground.all(), "33\n[b'hello', b'hello']\nTrue\n".replacen('\n', " ", 1).as_str())
        .map(drop)
}

fn ungranted(ground: &Ground) -> Result<()> {
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
"#;
    let (other, text) = ground.other(text)?;
    let (report, _) = ground.run(Python, &text, &[], &[])?;
    let refusal = "network access is not granted";
    ensure!(report.outcome() == "exited 0" && report.stdout().matches(refusal).count() == 2, "{:?}", report.json());
    ensure!(
        report.stdout().starts_with("False\n_ssl\n") || report.stdout().starts_with("False\nssl\n"),
        "{}",
        report.stdout()
    );
    ensure!(other.count()? == 0, "it was connected to");
    ensure!(report.missing().contains(&"network sockets"), "{:?}", report.missing());
    Ok(())
}
