//! JavaScript: `fetch` and related functions.

use std::net::TcpListener;
use std::thread;

use anyhow::{Result, ensure};
use codebox_testkit::Guest::JavaScript;

use crate::{Case, TestEnvironment};

pub fn cases() -> Vec<Case> {
    vec![
        ("get_and_post", JavaScript, get_and_post),
        ("streams_bodies", JavaScript, streams_bodies),
        ("decompresses_and_tees_bodies", JavaScript, decompresses_and_tees_bodies),
        ("handles_header_lists", JavaScript, handles_header_lists),
        ("sends_multipart_forms", JavaScript, sends_multipart_forms),
        ("rejects_wrong_content_length", JavaScript, rejects_wrong_content_length),
        ("reports_unusual_statuses", JavaScript, reports_unusual_statuses),
        ("reports_truncated_bodies", JavaScript, reports_truncated_bodies),
        ("reports_connection_resets", JavaScript, reports_connection_resets),
        ("pipes_bodies_through_streams", JavaScript, pipes_bodies_through_streams),
        ("queues_requests_above_limit", JavaScript, queues_requests_above_limit),
        ("sends_streamed_bodies", JavaScript, sends_streamed_bodies),
        ("reuses_connections", JavaScript, reuses_connections),
        ("checks_redirect_targets", JavaScript, checks_redirect_targets),
        ("uses_host_tls", JavaScript, uses_host_tls),
        ("aborts_requests", JavaScript, aborts_requests),
        ("runs_timers_during_requests", JavaScript, runs_timers_during_requests),
        ("rejects_ungranted_hosts", JavaScript, rejects_ungranted_hosts),
        ("matches_node_errors", JavaScript, matches_node_errors),
        ("exits_with_unread_body", JavaScript, exits_with_unread_body),
        ("reports_missing_network_without_grant", JavaScript, reports_missing_network_without_grant),
        ("http_requests", JavaScript, http_requests),
        ("web_sockets", JavaScript, web_sockets),
        ("web_sockets_that_fail", JavaScript, web_sockets_that_fail),
    ]
}

/// Functions of the tests of WebSockets.
const WEB_SOCKETS: &str = r#"
const base = 'ws://127.0.0.1:PLAIN/ws/';
const next = (socket, type) => new Promise((resolve) => socket.addEventListener(type, resolve, { once: true }));
const closed = async (socket) => { const { code, reason, wasClean } = await next(socket, 'close'); return `${code} ${reason} ${wasClean}`; };
"#;

fn web_sockets(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const socket = new WebSocket(base + 'echo', ['a', 'b']);
console.log(socket.readyState, socket.url === base + 'echo', socket.binaryType);
let order = '';
setTimeout(() => { order += 'timer '; }, 0);
await next(socket, 'open');
console.log(socket.readyState, socket.protocol, JSON.stringify(socket.extensions), order);
socket.send('grüße');
const first = await next(socket, 'message');
console.log(first instanceof MessageEvent, first.data, first.origin === base.slice(0, -4));
socket.send(new Uint8Array([0, 1, 255]).subarray(1));
console.log([...new Uint8Array(await (await next(socket, 'message')).data.arrayBuffer())]);
socket.binaryType = 'arraybuffer';
for (const size of [0, 125, 126, 65535, 65536, 3 << 20]) {
  const sent = new Uint8Array(size).map((_, i) => i * 7);
  socket.send(sent.buffer);
  const { data } = await next(socket, 'message');
  console.log(size, data.byteLength === size && sent.every((each, i) => each === new Uint8Array(data, i, 1)[0] || i > 9));
}
socket.send(new Blob(['blob ', 'of text']));
console.log(new TextDecoder().decode((await next(socket, 'message')).data), socket.bufferedAmount);
socket.close(3001, 'done');
console.log(socket.readyState, await closed(socket), socket.readyState);
const fragments = new WebSocket(base + 'fragments');
console.log((await next(fragments, 'message')).data, '|', (await next(fragments, 'message')).data);
fragments.close();
console.log(await closed(fragments));
const joined = new WebSocket(base + 'joined');
console.log((await next(joined, 'message')).data);
joined.close(1000);
console.log(await closed(joined));
const own = new WebSocket(base + 'header', { headers: { 'X-Own': 'mine' } });
own.onmessage = ({ data, target }) => { console.log(data, target === own); own.close(); };
console.log(await closed(own));
const many = new WebSocket(base + 'many');
let count = 0, ticks = 0;
const timer = setInterval(() => ticks++, 0);
await new Promise((resolve) => { many.onmessage = ({ data }) => { if (data !== String(count++)) console.log('order', data); if (count === 1000) resolve(); }; });
clearInterval(timer);
many.close();
console.log(count, await closed(many), require('node:http').WebSocket === WebSocket);
const server = new WebSocket(base + 'close');
console.log(await closed(server));
const all = await Promise.all([0, 1, 2, 3].map(async (number) => {
  const each = new WebSocket(base + 'echo');
  await next(each, 'open');
  const [{ data }, response] = await Promise.all([next(each, 'message'), fetch('http://127.0.0.1:PLAIN/hello').then((r) => r.text()), each.send(`number ${number}`)]);
  each.close();
  await next(each, 'close');
  return `${data} ${response}`;
}));
console.log(all.join());
"#;
    let sizes = [0, 125, 126, 65535, 65536, 3 << 20].map(|size| format!("{size} true\n")).concat();
    let expected = format!(
        "0 true blob\n1 b \"\" timer \ntrue grüße true\n[ 1, 255 ]\n{sizes}blob of text 0\n2 3001 done true 3\none two | pong in between\n1005  true\nhello\n\
         1000  true\nmine true\n1005  true\n1000 1005  true true\n4001 go away true\nnumber 0 hello,number 1 hello,number 2 hello,number 3 hello\n"
    );
    let text = format!(
        "{WEB_SOCKETS}const {{ createRequire }} = await import('node:module');\nconst require = createRequire('/work/x.js');\n{text}"
    );
    test_env.check_prints(JavaScript, &text, &test_env.all(), &expected)?;
    let secure = "const socket = new WebSocket('wss://localhost:TLS/ws/echo');\nsocket.onopen = () => socket.send('x');\nsocket.onmessage = ({ data }) => { console.log(data); socket.close(); };\nsocket.onerror = ({ message }) => console.log(message);";
    test_env.check_prints(JavaScript, secure, &test_env.all(), "x\n")?;
    Ok(())
}

fn web_sockets_that_fail(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
for (const path of ['wrong-key', 'drop', 'masked', 'invalid-text', '../hello']) {
  const socket = new WebSocket(base + path);
  const events = [];
  for (const type of ['open', 'error', 'message']) socket.addEventListener(type, () => events.push(type));
  console.log(path, await closed(socket), events.join());
}
const refused = new WebSocket('ws://192.0.2.1:9/');
refused.onerror = (event) => console.log(event.type, /granted|grant/.test(event.message) || event.message);
console.log(await closed(refused));
for (const make of [() => new WebSocket('ftp://x'), () => new WebSocket('not a url'), () => new WebSocket(base, ['a', 'a']), () => new WebSocket(base, ['a b']), () => new WebSocket(base + '#f')]) {
  try { make(); console.log('made'); } catch (error) { console.log(error.name); }
}
const early = new WebSocket(base + 'echo');
try { early.send('x'); } catch (error) { console.log(error.name); }
try { early.close(1001); } catch (error) { console.log(error.name); }
early.onerror = () => console.log('error');
early.close();
console.log(await closed(early));
"#;
    let expected = "wrong-key 1006  false error\ndrop 1006  false open\nmasked 1006  false open,error\ninvalid-text 1006  false open,error\n../hello 1006  false error\n\
                    error true\n1006  false\nSyntaxError\nSyntaxError\nSyntaxError\nSyntaxError\nSyntaxError\nInvalidStateError\nInvalidAccessError\nerror\n1006  false\n";
    test_env.check_prints(JavaScript, &format!("{WEB_SOCKETS}{text}"), &test_env.all(), expected)?;
    // Without grants, the message names the host.
    let report = test_env.run(JavaScript, "new WebSocket('wss://echo.example/x')", &[], &[])?.0;
    ensure!(report.at("/missing").to_string().contains("--net echo.example"), "{}", report.json());
    Ok(())
}

fn get_and_post(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const first = await fetch(base + '/hello');
console.log(first.status, first.ok, first.statusText, first.headers.get('x-greeting'), first.url === base + '/hello', await first.text());
const sent = await fetch(new Request(base + '/echo', { method: 'PUT', body: JSON.stringify({ a: [1, 'é'] }), headers: { 'content-type': 'application/json' } }));
console.log(sent.headers.get('x-method'), await sent.json());
console.log((await (await fetch(base + '/large')).arrayBuffer()).byteLength, (await (await fetch(base + '/hello')).bytes()) instanceof Uint8Array);
console.log(await (await fetch(base + '/headers', { headers: { 'X-Own': 'yes' } })).text().then((text) => [/^host: 127.0.0.1:\d+$/m.test(text), /^x-own: yes$/m.test(text)]));
console.log((await fetch(base + '/echo', { method: 'POST' })).status, (await fetch(base + '/missing')).ok, (await fetch(base + '/hello', { method: 'HEAD' })).headers.get('content-length'));
const large = new Uint8Array(3 << 20).map((_, i) => i);
const back = await (await fetch(base + '/echo', { method: 'POST', body: large })).bytes();
console.log(back.length === large.length && back.every((each, i) => each === large[i]));
"#;
    let expected =
        "200 true OK hello true hello\nPUT { a: [ 1, 'é' ] }\n1048576 true\n[ true, true ]\n200 false 5\ntrue\n";
    let report = test_env.check_prints(JavaScript, text, &test_env.all(), expected)?;
    ensure!(report.at("/network/attempts/0/verdict") == "allowed", "{}", report.at("/network"));
    Ok(())
}

fn streams_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const decoder = new TextDecoder();
let pieces = [];
for await (const piece of (await fetch(base + '/pieces')).body) pieces.push(decoder.decode(piece));
console.log(pieces.length > 1, pieces.join(''));
const reader = (await fetch(base + '/endless')).body.getReader();
console.log(decoder.decode((await reader.read()).value).startsWith('tick'));
await reader.cancel();
const response = await fetch(base + '/pieces');
const copy = response.clone();
console.log(await response.text() === await copy.text(), response.bodyUsed);
try { await response.text(); } catch (error) { console.log(error.name); }
console.log(response.body instanceof ReadableStream, await new Response(ReadableStream.from([new Uint8Array([104, 105])])).text());
"#;
    let expected = "true one two three\ntrue\ntrue true\nTypeError\ntrue hi\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn decompresses_and_tees_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'https://localhost:TLS';
const packed = await fetch(base + '/gzip');
console.log(packed.headers.get('content-encoding'), await packed.text() === 'hello '.repeat(100));
const [one, other] = (await fetch(base + '/pieces')).body.tee();
console.log(await new Response(one).text(), await new Response(other).text());
"#;
    let expected = "gzip true\none two three one two three\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn pipes_bodies_through_streams(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const upper = () => new TransformStream({ transform: (chunk, controller) => controller.enqueue(chunk.toUpperCase()) });
let text = '';
for await (const part of (await fetch(base + '/pieces')).body.pipeThrough(new TextDecoderStream()).pipeThrough(upper())) text += part;
console.log(text);
let length = 0;
await (await fetch(base + '/large')).body.pipeTo(new WritableStream({ write: (chunk) => void (length += chunk.length) }));
console.log(length);
const packed = new Blob(['hello '.repeat(20000)]).stream().pipeThrough(new CompressionStream('gzip'));
const back = await fetch(base + '/echo', { method: 'POST', body: packed, duplex: 'half' });
console.log((await new Response(back.body.pipeThrough(new DecompressionStream('gzip'))).text()) === 'hello '.repeat(20000));
const control = new AbortController();
const endless = (await fetch(base + '/endless')).body;
let count = 0;
await endless.pipeTo(new WritableStream({ write: () => void (++count === 3 && control.abort(new Error('enough'))) }), { signal: control.signal })
  .catch((error) => console.log(error.message, count));
const reader = (await fetch(base + '/hello')).body.getReader({ mode: 'byob' });
console.log((await reader.read(new Uint8Array(4))).value, (await reader.read(new Uint8Array(4))).value, (await reader.read(new Uint8Array(4))).done);
const { Readable } = await import('node:stream');
const { text: whole } = await import('node:stream/consumers');
console.log(await whole(Readable.fromWeb((await fetch(base + '/pieces')).body)));
"#;
    let expected = "ONE TWO THREE\n1048576\ntrue\nenough 3\nUint8Array(4) [ 104, 101, 108, 108 ] Uint8Array(1) [ 111 ] true\none two three\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

/// The host limits concurrent exchanges to 64.
fn queues_requests_above_limit(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const all = await Promise.all(Array.from({ length: 150 }, (_, i) => fetch(base + '/echo', { method: 'POST', body: `${i}` }).then((answer) => answer.text())));
console.log(all.every((text, i) => text === `${i}`));
// A short response ends although its body is not read.
let good = 0;
const kept = [];
for (let i = 0; i < 150; i++) {
  const answer = await fetch(base + '/hello');
  if (answer.ok) good++;
  kept.push(answer);
}
console.log(good, await kept[3].text(), await kept[149].text());
// Waiting can be given up.
const held = [];
for (let i = 0; i < 64; i++) held.push(await fetch(base + '/endless'));
const control = new AbortController();
setTimeout(() => control.abort(new Error('given up')), 20);
const first = fetch(base + '/hello', { signal: control.signal }).catch((error) => error.message);
const second = fetch(base + '/hello').then((answer) => answer.text());
console.log(await first);
await held[7].body.cancel();
console.log(await second);
// A request fails if no connection becomes free.
const large = [await fetch(base + '/large')];
for (const one of held) if (one !== held[7]) await one.body.cancel();
for (let i = 1; i < 64; i++) large.push(await fetch(base + '/large'));
await fetch(base + '/hello').catch((error) => console.log(error.message, error.cause.code));
console.log((await large[9].bytes()).length, await (await fetch(base + '/hello')).text());
"#;
    let expected = "true\n150 hello hello\ngiven up\nhello\nfetch failed EMFILE\n1048576 hello\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn handles_header_lists(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const given = new Headers([['A', '1'], ['a', '2'], ['Set-Cookie', 'q=1']]);
given.append('set-cookie', 'r=2');
console.log(JSON.stringify([...given]), given.getSetCookie().join());
const many = await fetch('http://127.0.0.1:PLAIN/many');
console.log(many.headers.get('x-149'), await many.text());
for (const bad of [{ 'a b': 'c' }, { a: 'c\nd' }]) {
  try { new Headers(bad); } catch (error) { console.log(error.name); }
}
given.delete('set-cookie');
const lines = await (await fetch('http://127.0.0.1:PLAIN/headers', { headers: given })).text();
console.log(/^a: 1, 2$/m.test(lines), /cookie/.test(lines), /^accept-encoding: gzip, deflate$/m.test(lines));
"#;
    let expected = "[[\"a\",\"1, 2\"],[\"set-cookie\",\"q=1\"],[\"set-cookie\",\"r=2\"]] q=1,r=2\nv many\nTypeError\nTypeError\ntrue false true\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn sends_multipart_forms(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const form = new FormData();
form.append('name', 'v');
form.append('doc', new File([new Uint8Array(300000).map((_, i) => i)], 'a.pdf', { type: 'application/pdf' }));
const request = new Request('http://127.0.0.1:PLAIN/echo', { method: 'POST', body: form });
const type = request.headers.get('content-type');
console.log(type.startsWith('multipart/form-data; boundary='));
const sent = await (await fetch(request)).bytes();
const back = await new Response(sent, { headers: { 'content-type': type } }).formData();
const doc = back.get('doc');
console.log(request.bodyUsed, back.get('name'), doc.name, doc.type, (await doc.bytes()).every((each, i) => each === i % 256), doc.size);
const lines = await (await fetch('http://127.0.0.1:PLAIN/headers', { method: 'POST', body: form })).text();
console.log(/^content-type: multipart\/form-data; boundary=\S+$/m.test(lines), /^content-length: 300\d{3}$/m.test(lines));
"#;
    let expected = "true\ntrue v a.pdf application/pdf true 300000\ntrue true\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn rejects_wrong_content_length(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
for (const length of ['3', '2', '5', 'x']) {
  await fetch('http://127.0.0.1:PLAIN/echo', { method: 'POST', body: 'abc', headers: { 'content-length': length } })
    .then((answer) => answer.text()).then(console.log, ({ name, cause }) => console.log(name, cause.name, cause.code));
}
"#;
    let mismatch = "TypeError RequestContentLengthMismatchError UND_ERR_REQ_CONTENT_LENGTH_MISMATCH\n";
    let expected = format!("abc\n{mismatch}{mismatch}TypeError InvalidArgumentError UND_ERR_INVALID_ARG\n");
    test_env.check_prints(JavaScript, text, &test_env.all(), &expected).map(drop)
}

fn reports_unusual_statuses(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
for (const status of [299, 600, 999, '099', 'abc']) {
  await fetch('http://127.0.0.1:PLAIN/status?' + status)
    .then(async (answer) => console.log(answer.status, answer.ok, answer.clone().status, await answer.text()), (error) => console.log(error.name, error.message));
}
"#;
    let failed = "TypeError fetch failed\n";
    let expected = format!("299 true 299 own\n600 false 600 own\n999 false 999 own\n{failed}{failed}");
    test_env.check_prints(JavaScript, text, &test_env.all(), &expected).map(drop)
}

fn reports_truncated_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
for (const path of ['/cut', '/unchunked']) {
  const answer = await fetch('http://127.0.0.1:PLAIN' + path);
  await answer.text().catch(({ name, message, cause }) => console.log(name, message, cause.name, cause.code, cause.message === 'other side closed'));
}
"#;
    let expected = "TypeError terminated SocketError UND_ERR_SOCKET true\nTypeError terminated Error EPROTO false\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn reports_connection_resets(test_env: &TestEnvironment) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Closing a socket with unread data resets the connection.
            let _peeked = stream.peek(&mut [0; 16]);
        }
    });
    let text = format!(
        "await fetch('http://{at}/').catch(({{ cause }}) => console.log(cause.message, cause.code, cause.syscall, cause.errno));"
    );
    test_env.check_prints(JavaScript, &text, &[at.to_string()], "read ECONNRESET ECONNRESET read -104\n").map(drop)
}

fn sends_streamed_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
async function* parts() {
  for (let i = 0; i < 40; i++) {
    if (i % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    yield new Uint8Array(50000).fill(i);
  }
}
const answer = await fetch('http://127.0.0.1:PLAIN/echo', { method: 'POST', body: ReadableStream.from(parts()), duplex: 'half' });
const bytes = await answer.bytes();
console.log(bytes.length, bytes[0], bytes[1999999]);
"#;
    test_env.check_prints(JavaScript, text, &test_env.all(), "2000000 0 39\n").map(drop)
}

fn reuses_connections(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const numbers = new Set();
for (let i = 0; i < 5; i++) numbers.add(await (await fetch('http://127.0.0.1:PLAIN/connection')).text());
console.log(numbers.size);
const beside = await Promise.all(Array.from({ length: 8 }, () => fetch('http://127.0.0.1:PLAIN/pieces').then((r) => r.text())));
console.log(new Set(beside).size, beside.length);
"#;
    test_env.check_prints(JavaScript, text, &test_env.all(), "1\n1 8\n").map(drop)
}

fn checks_redirect_targets(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const led = await fetch(base + '/redirect?/hello', { method: 'POST', body: 'x' });
console.log(led.redirected, led.url === base + '/hello', await led.text());
console.log((await fetch(base + '/redirect?/hello', { redirect: 'manual' })).status);
for (const [to, init] of [['/hello', { redirect: 'error' }], ['http://127.0.0.1:OTHER/hello', {}], ['/redirect?/hello', {}]]) {
  await fetch(base + '/redirect?' + to, init).then((r) => r.text()).then(console.log, (error) => console.log(error.message, error.cause.code));
}
"#;
    let expected = "true true hello\n302\nfetch failed undefined\nfetch failed EACCES\nhello\n";
    let (other, text) = test_env.other(text)?;
    let report = test_env.check_prints(JavaScript, &text, &test_env.all(), expected)?;
    ensure!(other.count()? == 0, "a redirect reached a host without a grant");
    let hint = report.at("/denials/0/hint");
    ensure!(hint.as_str() == Some(&format!("add --net 127.0.0.1:{}", other.address.port())), "{hint}");
    Ok(())
}

fn uses_host_tls(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
console.log(await (await fetch('https://localhost:TLS/hello')).text());
console.log((await (await fetch('https://localhost:TLS/large')).text()).length);
await fetch('https://localhost:MISNAMED/hello').catch((error) => console.log(error.cause.code));
"#;
    test_env.check_prints(JavaScript, text, &test_env.all(), "hello\n1048576\nERR_TLS_CERT_ALTNAME_INVALID\n").map(drop)
}

fn aborts_requests(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
const base = 'http://127.0.0.1:PLAIN';
const control = new AbortController();
setTimeout(() => control.abort(), 20);
await fetch(base + '/never', { signal: control.signal }).catch((error) => console.log(error.name));
await fetch(base + '/never', { signal: AbortSignal.timeout(20) }).catch((error) => console.log(error.name));
await fetch(base + '/hello', { signal: AbortSignal.abort() }).catch((error) => console.log(error.name));
const second = new AbortController();
const response = await fetch(base + '/endless', { signal: second.signal });
setTimeout(() => second.abort(new Error('enough')), 20);
await response.text().catch((error) => console.log(error.message));
console.log(await (await fetch(base + '/hello')).text());
"#;
    let expected = "AbortError\nTimeoutError\nAbortError\nenough\nhello\n";
    test_env.check_prints(JavaScript, text, &test_env.all(), expected).map(drop)
}

fn runs_timers_during_requests(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
let ticks = 0;
const timer = setInterval(() => { ticks++; if (ticks === 3) control.abort(); }, 5);
const control = new AbortController();
await fetch('http://127.0.0.1:PLAIN/never', { signal: control.signal }).catch((error) => console.log(error.name, ticks));
clearInterval(timer);
// An answer does not wait for a timer.
const late = setTimeout(() => {}, 3600000);
await fetch('http://127.0.0.1:PLAIN/hello').then(() => clearTimeout(late));
// Timers fire while bodies arrive faster than they are read.
const flood = new AbortController();
setTimeout(() => flood.abort(new Error('fired')), 20);
const drain = async () => {
  for await (const chunk of (await fetch('http://127.0.0.1:PLAIN/flood', { signal: flood.signal })).body);
};
console.log(await Promise.all(Array.from({ length: 8 }, drain)).catch((error) => error.message));
"#;
    test_env.check_prints(JavaScript, text, &test_env.all(), "AbortError 3\nfired\n").map(drop)
}

fn rejects_ungranted_hosts(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
for (const url of ['http://example.org/', 'http://127.0.0.1:OTHER/', 'http://[::1]:PLAIN/', 'http://169.254.169.254/']) {
  await fetch(url).catch((error) => console.log(error.message, error.cause.code, error.cause.message.includes('--net')));
}
await fetch('ftp://127.0.0.1/').catch((error) => console.log(error.message));
await fetch('http://user:word@127.0.0.1:PLAIN/').catch((error) => console.log(error.name));
"#;
    let expected = "fetch failed EACCES true\n".repeat(4) + "fetch failed\nTypeError\n";
    let (other, text) = test_env.other(text)?;
    let report = test_env.check_prints(JavaScript, &text, &test_env.all(), &expected)?;
    ensure!(other.count()? == 0, "a port without a grant was contacted");
    ensure!(report.at("/network/attempts").as_array().map(Vec::len) == Some(4), "{}", report.at("/network"));
    Ok(())
}

fn matches_node_errors(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
await fetch('http://127.0.0.1:1/').catch(({ cause }) => console.log(cause.code, cause.syscall, cause.port, cause.message));
await fetch('http://no-such-host.invalid/').catch(({ cause }) => console.log(cause.code, cause.syscall));
await fetch('https://localhost:PLAIN/').catch(({ message }) => console.log(message));
"#;
    let mut grants = test_env.all();
    grants.extend(["127.0.0.1:1", "no-such-host.invalid"].map(str::to_owned));
    grants.push(format!("localhost:{}", test_env.plain.address.port()));
    let expected = "ECONNREFUSED connect 1 connect ECONNREFUSED 127.0.0.1:1\nENOTFOUND getaddrinfo\nfetch failed\n";
    test_env.check_prints(JavaScript, text, &grants, expected).map(drop)
}

fn exits_with_unread_body(test_env: &TestEnvironment) -> Result<()> {
    let text = "const { status } = await fetch('http://127.0.0.1:PLAIN/endless'); console.log(status);";
    test_env.check_prints(JavaScript, text, &test_env.all(), "200\n").map(drop)
}

fn reports_missing_network_without_grant(test_env: &TestEnvironment) -> Result<()> {
    let text =
        "await fetch('http://127.0.0.1:OTHER/hello').catch((error) => console.log(error.message, error.cause.code));";
    let (other, text) = test_env.other(text)?;
    let report = test_env.check_prints(JavaScript, &text, &[], "fetch failed EACCES\n")?;
    ensure!(other.count()? == 0, "the host was contacted");
    ensure!(report.missing().contains(&"network sockets"), "{:?}", report.missing());
    Ok(())
}

/// Requests of `node:http`, with the output of Node.
fn http_requests(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import http from 'node:http';
const base = 'http://127.0.0.1:PLAIN';
const read = (response) => new Promise((resolve, reject) => {
  let text = '';
  response.setEncoding('utf8').on('data', (piece) => (text += piece)).on('end', () => resolve(text)).on('error', reject);
});
const ended = (request) => new Promise((resolve, reject) => request.on('response', resolve).on('error', reject));
const got = await ended(http.get(base + '/hello', { headers: { 'X-Own': 'yes' } }));
console.log(got.statusCode, got.statusMessage, got.httpVersion, got.headers['x-greeting'], await read(got), got.complete);
const { hostname, port } = new URL(base);
const post = http.request({ hostname, port, path: '/echo', method: 'POST', headers: { 'content-type': 'text/plain' } });
post.setHeader('X-More', ['a', 'b']);
console.log(post.getHeader('x-more'), post.hasHeader('CONTENT-TYPE'), post.method, post.path);
post.write('some ');
post.end('text');
const posted = await ended(post);
console.log(posted.headers['x-method'], await read(posted), post.headersSent);
const sent = await read(await ended(http.get(base + '/headers', { auth: 'me:secret', headers: { 'X-Own': 'yes' } })));
console.log(/^x-own: yes$/im.test(sent), /^authorization: Basic bWU6c2VjcmV0$/im.test(sent), /accept-language/i.test(sent));
const moved = await ended(http.get(base + '/redirect?/hello'));
console.log(moved.statusCode, moved.headers.location, moved.resume() === moved);
const refused = await ended(http.get('http://127.0.0.1:1/')).catch((error) => error);
console.log(refused.code, refused.syscall);
const late = http.get(base + '/never', { timeout: 50 });
late.on('timeout', () => late.destroy());
console.log(await ended(late).catch((error) => `${error.code} ${error.message}`));
try { http.get('https://127.0.0.1/'); } catch (error) { console.log(error.code); }
"#;
    let expected = "200 OK 1.1 hello hello true\n[ 'a', 'b' ] true POST /echo\nPOST some text true\ntrue true false\n302 /hello true\nECONNREFUSED connect\nECONNRESET socket hang up\nERR_INVALID_PROTOCOL\n";
    let mut grants = test_env.all();
    grants.push("127.0.0.1:1".into());
    test_env.check_prints(JavaScript, text, &grants, expected).map(drop)?;
    let text =
        "require('http').get('http://example.com/x').on('error', (error) => console.log(error.code, error.message));";
    let report = test_env.check_prints(
        JavaScript,
        text,
        &[],
        "EACCES connect example.com:80 EACCES: network access is not granted to this sandbox\n",
    )?;
    ensure!(report.missing().contains(&"access to example.com"), "{:?}", report.missing());
    Ok(())
}
