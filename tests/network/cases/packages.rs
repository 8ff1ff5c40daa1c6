//! Python clients from a package index. A first run of each fetches and caches the package and its dependencies.

use anyhow::{Result, ensure};

use crate::TestEnvironment;

/// Case: name, package and body.
pub type Case = (&'static str, &'static str, fn(&TestEnvironment) -> Result<()>);

pub const CASES: &[Case] = &[
    ("requests", "requests", requests),
    ("requests_errors", "requests", requests_errors),
    ("httpx", "httpx", httpx),
    ("httpx_async", "httpx", httpx_async),
];

fn requests(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import requests
base = "https://localhost:TLS"
answer = requests.get(base + "/hello")
print(answer.status_code, answer.headers["X-Greeting"], answer.text)
print(requests.get("http://127.0.0.1:PLAIN/gzip").text == "hello " * 100, len(requests.get(base + "/large").content))
with requests.Session() as session:
    print(len({session.get(base + "/connection").text for _ in range(5)}))
    print(session.post(base + "/echo", json={"a": 1}).json(), session.post(base + "/echo", data=iter([b"ab", b"c"])).content)
    with session.get(base + "/pieces", stream=True) as answer:
        print(b"".join(answer.iter_content(4)))
    with session.get(base + "/endless", stream=True) as answer:
        print(next(answer.iter_lines()))
    answer = session.get(base + "/redirect?/hello")
    print(len(answer.history), answer.text)
"#;
    let expected = "200 hello hello\nTrue 1048576\n1\n{'a': 1} b'abc'\nb'one two three'\nb'tick'\n1 hello\n";
    test_env.check_prints_with("requests", text, expected).map(drop)
}

fn requests_errors(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import requests
base = "https://localhost:TLS"
def kind(url, **more):
    try:
        requests.get(url, **more).raise_for_status()
    except requests.RequestException as error:
        return type(error).__name__, "--net 127.0.0.1:OTHER" in str(error)
print(kind(base + "/redirect?http://127.0.0.1:OTHER/hello"))
print(kind(base + "/never", timeout=0.2))
print(kind(base + "/missing"))
import warnings
warnings.simplefilter("ignore")
print(kind("https://localhost:MISNAMED/hello"), kind("https://localhost:MISNAMED/hello", verify=False))
"#;
    let (other, text) = test_env.other(text)?;
    let expected = "('ConnectionError', True)\n('ReadTimeout', False)\n('HTTPError', False)\n\
        ('SSLError', False) ('SSLError', False)\n";
    let report = test_env.check_prints_with("requests", &text, expected)?;
    ensure!(other.count()? == 0, "a redirect reached a host without a grant");
    let hint = report.at("/denials/0/hint");
    ensure!(hint.as_str() == Some(&format!("add --net 127.0.0.1:{}", other.address.port())), "{hint}");
    Ok(())
}

fn httpx(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import httpx
base = "https://localhost:TLS"
print(httpx.get(base + "/hello").text, httpx.get("http://127.0.0.1:PLAIN/gzip").text == "hello " * 100)
with httpx.Client(base_url=base, follow_redirects=True) as client:
    print(len({client.get("/connection").text for _ in range(5)}), client.post("/echo", content=iter([b"ab", b"c"])).content)
    with client.stream("GET", "/pieces") as answer:
        print(b"".join(answer.iter_bytes()))
    print(client.get("/redirect?/hello").text)
    for path, more in (("/redirect?http://127.0.0.1:OTHER/hello", {}), ("/never", {"timeout": 0.2})):
        try:
            client.get(path, **more)
        except httpx.TransportError as error:
            print(type(error).__name__, "--net 127.0.0.1:OTHER" in str(error))
"#;
    let (other, text) = test_env.other(text)?;
    let expected = "hello True\n1 b'abc'\nb'one two three'\nhello\nConnectError True\nReadTimeout False\n";
    test_env.check_prints_with("httpx", &text, expected)?;
    ensure!(other.count()? == 0, "a redirect reached a host without a grant");
    Ok(())
}

/// Uses httpx in an event loop, with TLS data transferred by anyio.
fn httpx_async(test_env: &TestEnvironment) -> Result<()> {
    let text = r#"
import asyncio, httpx
base = "https://localhost:TLS"
async def main():
    async with httpx.AsyncClient(follow_redirects=True) as client:
        print(len(await asyncio.gather(*[client.get(base + "/hello") for _ in range(100)])))
        answers = await asyncio.gather(*[client.get(base + "/pieces") for _ in range(4)], client.get("http://127.0.0.1:PLAIN/pieces"))
        print({answer.text for answer in answers}, len((await client.get(base + "/large")).content))
        print(len({(await client.get(base + "/connection")).text for _ in range(5)}) <= 4)
        body = bytes(range(256)) * 2000
        print((await client.post(base + "/echo", content=body)).content == body, (await client.get(base + "/redirect?/hello")).text)
        async with client.stream("GET", base + "/endless") as answer:
            async for line in answer.aiter_lines():
                print(line)
                break
        for url, more in ((base + "/never", {"timeout": 0.2}), ("https://localhost:MISNAMED/hello", {}), (base + "/redirect?https://127.0.0.1:OTHER/hello", {})):
            try:
                print(await client.get(url, **more))
            except (httpx.TransportError, OSError) as error:
                print(type(error).__name__, "CERTIFICATE_VERIFY_FAILED" in str(error))
asyncio.run(main())
"#;
    let (other, text) = test_env.other(text)?;
    let expected = "100\n{'one two three'} 1048576\nTrue\nTrue hello\ntick\nReadTimeout False\nConnectError True\nConnectError False\n";
    test_env.check_prints_with("httpx", &text, expected)?;
    ensure!(other.count()? == 0, "a redirect reached a host without a grant");
    Ok(())
}
