//! Secrets by placeholders: what servers receive, and what the guest sees.
//!
//! The server sends the header `Authorization` back in reverse, in a form that is not masked: it shows that the value arrived.

use anyhow::{Result, ensure};
use codebox_testkit::Guest::{self, JavaScript, Python};
use codebox_testkit::Report;

use crate::{Case, TestEnvironment};

const VALUE: &str = "sk-4711\"canary\\0815";

pub fn cases() -> Vec<Case> {
    vec![
        ("secrets_replace_placeholders", Python, |test_env| replaces_placeholders(test_env, Python)),
        ("secrets_replace_placeholders", JavaScript, |test_env| replaces_placeholders(test_env, JavaScript)),
        ("secrets_over_asyncio", Python, over_asyncio),
        ("secrets_stay_out_of_bodies_and_targets", Python, stay_out_of_bodies),
        ("secrets_stay_out_of_bodies_and_targets", JavaScript, stay_out_of_bodies_in_javascript),
        ("secrets_are_for_their_hosts", Python, |test_env| are_for_their_hosts(test_env, Python)),
        ("secrets_are_for_their_hosts", JavaScript, |test_env| are_for_their_hosts(test_env, JavaScript)),
        ("secrets_are_refused_to_other_hosts_of_a_connection", Python, refused_to_other_hosts),
        ("secrets_are_masked", Python, |test_env| are_masked(test_env, Python)),
        ("secrets_are_masked", JavaScript, |test_env| are_masked(test_env, JavaScript)),
        ("secrets_are_masked_across_reads", Python, |test_env| masked_across_reads(test_env, Python)),
        ("secrets_are_masked_across_reads", JavaScript, |test_env| masked_across_reads(test_env, JavaScript)),
        ("secrets_are_masked_in_credentials", Python, |test_env| masked_in_credentials(test_env, Python)),
        ("secrets_are_masked_in_credentials", JavaScript, |test_env| masked_in_credentials(test_env, JavaScript)),
        ("secrets_need_webassembly_and_a_granted_host", Python, need_webassembly),
    ]
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

/// Runs a program whose secret `KEY` is for `localhost`.
fn run(test_env: &TestEnvironment, guest: Guest, text: &str) -> Result<Report> {
    let text = test_env.substitute_ports(text);
    let mut command = test_env.kit.run_json().env("SSL_CERT_FILE", test_env.roots()).env("ORIGIN", VALUE);
    command = command.args(guest.inline(&text)).args(["--secret", "KEY=env:ORIGIN@localhost"]);
    for grant in test_env.all() {
        command = command.args(["--net".to_owned(), grant]);
    }
    let result = command.run()?;
    ensure!(!result.timed_out, "timed out");
    ensure!(!result.stdout_text().contains("canary"), "the value is in the report: {}", result.stdout_text());
    result.report()
}

fn prints(test_env: &TestEnvironment, guest: Guest, text: &str, expected: &str) -> Result<()> {
    let report = run(test_env, guest, text)?;
    let details = || format!("{} {}", report.outcome(), report.stderr());
    ensure!(report.outcome() == "exited 0", "failed: {}", details());
    ensure!(report.stdout() == expected, "printed {:?} and not {expected:?}; {}", report.stdout(), details());
    Ok(())
}

fn replaces_placeholders(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import base64, http.client, os, ssl, urllib.request
key = os.environ['KEY']
print(key)
def fetch(value):
    request = urllib.request.Request('https://localhost:TLS/reversed', headers={'Authorization': value})
    return urllib.request.urlopen(request).read().decode()
print(fetch('Bearer ' + key))
print(base64.b64decode(fetch('Basic ' + base64.b64encode(f'me:{key}'.encode()).decode())[::-1][6:]).decode()[::-1])
connection = http.client.HTTPSConnection('localhost', TLS)
for number in range(3):
    connection.request('GET', '/reversed', headers={'Authorization': f'{number} {key}'})
    print(connection.getresponse().read().decode())
",
        "const key = process.env.KEY;
console.log(key);
const reverse = text => [...text].reverse().join('');
const fetched = async value => (await fetch('https://localhost:TLS/reversed', { headers: { Authorization: value } })).text();
console.log(await fetched(`Bearer ${key}`));
console.log(reverse(atob(reverse(await fetched(`Basic ${btoa(`me:${key}`)}`)).slice(6))));
for (let number = 0; number < 3; number++) console.log(await fetched(`${number} ${key}`));
",
    );
    let value = reversed(VALUE);
    let expected = format!("codebox-secret.KEY.\n{value} reraeB\n{value}:em\n{value} 0\n{value} 1\n{value} 2\n");
    prints(test_env, guest, text, &expected)
}

fn over_asyncio(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
import asyncio, os, ssl
async def main():
    context = ssl.create_default_context()
    context.set_alpn_protocols(['h2', 'http/1.1'])
    reader, writer = await asyncio.open_connection('localhost', TLS, ssl=context)
    for part in ('GET /reversed HTTP/1.1\r\nHost: localhost:TLS\r\nAuthor', 'ization: codebox-sec', 'ret.KEY.\r\n', '\r\n'):
        writer.write(part.encode())
        await writer.drain()
    head = await reader.readuntil(b'\r\n\r\n')
    length = int(head.lower().partition(b'content-length: ')[2].split()[0])
    print((await reader.readexactly(length)).decode())
    writer.write(b'POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\nA: codebox-secret.KEY.\r\n\r\n' + b'x' * 300000)
    head = await reader.readuntil(b'\r\n\r\n')
    print(await reader.readexactly(300000) == b'x' * 300000)
    writer.close()
asyncio.run(main())
";
    prints(test_env, Python, text, &format!("{}\nTrue\n", reversed(VALUE)))
}

fn stay_out_of_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
import http.client, os
key = os.environ['KEY']
connection = http.client.HTTPSConnection('localhost', TLS)
def reply(*words, **options):
    connection.request(*words, **options)
    return connection.getresponse().read().decode()
print(reply('POST', '/echo', body=key))
print(reply('POST', '/echo', body=iter([key[:5].encode(), key[5:].encode()]), encode_chunked=True))
connection.close()
print(reply('GET', '/reversed?' + key, headers={'Authorization': key}))
print(reply('PUT', '/echo', body='x' * 1000000) == 'x' * 1000000)
";
    let expected = format!("codebox-secret.KEY.\ncodebox-secret.KEY.\n{}\nTrue\n", reversed(VALUE));
    prints(test_env, Python, text, &expected)
}

fn stay_out_of_bodies_in_javascript(test_env: &TestEnvironment) -> Result<()> {
    let text = "
const { KEY: key } = process.env;
const url = 'https://localhost:TLS';
console.log(await (await fetch(`${url}/echo`, { method: 'POST', body: key })).text());
console.log(await (await fetch(`${url}/reversed?${key}`, { headers: { Authorization: key, Host: 'evil.example' } })).text());
";
    prints(test_env, JavaScript, text, &format!("codebox-secret.KEY.\n{}\n", reversed(VALUE)))
}

/// Another host receives the placeholder, over TLS and without it.
fn are_for_their_hosts(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import os, urllib.request
headers = {'Authorization': os.environ['KEY']}
request = urllib.request.Request('http://127.0.0.1:PLAIN/reversed', headers=headers)
print(urllib.request.urlopen(request).read().decode())
",
        "const headers = { Authorization: process.env.KEY };
console.log(await (await fetch('http://127.0.0.1:PLAIN/reversed', { headers })).text());
",
    );
    prints(test_env, guest, text, &format!("{}\n", reversed("codebox-secret.KEY.")))
}

fn refused_to_other_hosts(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
import http.client, os
for headers, target in (({'Host': 'evil.example'}, '/reversed'), ({}, 'https://evil.example/reversed')):
    connection = http.client.HTTPSConnection('localhost', TLS)
    try:
        connection.request('GET', target, headers={'Authorization': os.environ['KEY'], **headers})
        print(connection.getresponse().read())
    except OSError as error:
        print(type(error).__name__, error)
connection = http.client.HTTPSConnection('localhost', TLS)
connection.request('GET', '/headers', headers={'Host': 'evil.example'})
print('evil.example' in connection.getresponse().read().decode())
";
    let refused =
        "PermissionError [Errno 2] the secret KEY is not sent: the request is for another host than the connection\n";
    prints(test_env, Python, text, &format!("{refused}{refused}True\n"))
}

/// The value is masked in answers and, when a program has found it, in output, results and errors.
fn are_masked(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import os, urllib.request
def fetch(path):
    request = urllib.request.Request('https://localhost:TLS' + path, headers={'Authorization': os.environ['KEY']})
    return urllib.request.urlopen(request)
print([line for line in fetch('/headers').read().decode().splitlines() if line.startswith('Authorization')])
print(fetch('/mirror').headers['X-Mirror'])
found = fetch('/reversed').read().decode()[::-1]
print(len(found), found, 'after')
display({'text/plain': found, 'application/json': {'a': [found]}}, raw=True)
raise ValueError(found)
",
        "const headers = { Authorization: process.env.KEY };
const fetched = path => fetch(`https://localhost:TLS${path}`, { headers });
const lines = (await (await fetched('/headers')).text()).split('\\n').filter(line => /^authorization/i.test(line));
console.log(lines.join().replace('authorization', 'Authorization'));
console.log((await fetched('/mirror')).headers.get('x-mirror'));
const found = [...await (await fetched('/reversed')).text()].reverse().join('');
console.log(found.length, found, 'after');
display({ 'text/plain': found, 'application/json': { a: [found] } }, { raw: true });
throw new Error(found);
",
    );
    let report = run(test_env, guest, text)?;
    ensure!(report.outcome() == "exited 1", "{} {}", report.outcome(), report.stderr());
    let stars = "*".repeat(VALUE.len());
    for (place, count) in [(report.stdout(), 3), (report.stderr(), 1)] {
        ensure!(place.matches(&stars).count() >= count, "not masked in {place}");
    }
    ensure!(report.at("/error/value").as_str().is_some_and(|value| value.contains("****")), "{}", report.json());
    ensure!(report.at("/results").to_string().contains("****"), "{}", report.json());
    Ok(())
}

/// A program that chooses where the value is in the answer does not divide it between two reads, but for three bytes.
fn masked_across_reads(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import os, socket, ssl, urllib.request
def fetch(count):
    request = urllib.request.Request(f'https://localhost:TLS/padded?{count}', headers={'Authorization': os.environ['KEY']})
    return urllib.request.urlopen(request).read()
for size in (8192, 16384, 65536):
    for count in range(size - 200, size + 8, 3):
        body = fetch(count)
        assert len(body) == count + 19 and body[count + 3:] == b'*' * 16, (count, body[count:])
print('masked')
",
        "const headers = { Authorization: process.env.KEY };
for (const size of [8192, 16384, 65536]) {
  for (let count = size - 200; count < size + 8; count += 3) {
    const body = await (await fetch(`https://localhost:TLS/padded?${count}`, { headers })).text();
    const value = body.slice(count);
    if (value.length !== 19 || value.slice(3) !== '*'.repeat(16)) throw new Error(`${count} ${value}`);
  }
}
console.log('masked');
",
    );
    prints(test_env, guest, text, "masked\n")
}

/// Credentials that codebox has encoded are masked like the value.
fn masked_in_credentials(test_env: &TestEnvironment, guest: Guest) -> Result<()> {
    let text = guest.choose(
        "import base64, os, urllib.request
for user in ('', 'u', 'us'):
    for end in ('', '#', '##'):
        credentials = 'Basic ' + base64.b64encode(f'{user}:{os.environ[\"KEY\"]}{end}'.encode()).decode()
        request = urllib.request.Request('https://localhost:TLS/headers', headers={'Authorization': credentials})
        body = urllib.request.urlopen(request).read().decode()
        line = next(line for line in body.splitlines() if line.startswith('Authorization'))
        assert line.count('*') >= 25, line
print('masked')
",
        "for (const user of ['', 'u', 'us']) {
  for (const end of ['', '#', '##']) {
    const headers = { Authorization: `Basic ${btoa(`${user}:${process.env.KEY}${end}`)}` };
    const lines = (await (await fetch('https://localhost:TLS/headers', { headers })).text()).split('\\n');
    const line = lines.find(line => /^authorization/i.test(line));
    if ([...line].filter(c => c === '*').length < 25) throw new Error(line);
    const { statusText } = await fetch('https://localhost:TLS/reason', { headers: { Authorization: process.env.KEY } });
    if (!statusText.includes('****')) throw new Error(statusText);
  }
}
console.log('masked');
",
    );
    prints(test_env, guest, text, "masked\n")
}

fn need_webassembly(test_env: &TestEnvironment) -> Result<()> {
    let secret = ["--secret", "KEY=env:ORIGIN@localhost"];
    let refusal = |options: &[&str], code: &str| -> Result<String> {
        let command = test_env.kit.codebox().env("ORIGIN", VALUE).args(["run"]).args(secret).args(options);
        let result = command.args(["-c", code]).run()?;
        ensure!(result.code != Some(0), "it ran: {}", result.stdout_text());
        ensure!(!result.stderr_text().contains("canary"), "{}", result.stderr_text());
        Ok(result.stderr_text())
    };
    let ungranted = refusal(&[], "1")?;
    ensure!(
        ungranted.contains("its host localhost is not granted") && ungranted.contains("--net localhost"),
        "{ungranted}"
    );
    let container = refusal(&["--net", "localhost", "--isolation", "container"], "1")?;
    ensure!(container.contains("only WebAssembly keeps it from the program"), "{container}");
    // A program that needs a container does not get the value there.
    let escalated = refusal(&["--net", "localhost"], "import subprocess; subprocess.run(['true'])")?;
    let is_explained = escalated.contains("only WebAssembly keeps its secrets from the program");
    ensure!(is_explained && !escalated.contains("--isolation container"), "{escalated}");
    Ok(())
}
