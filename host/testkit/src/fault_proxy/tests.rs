use std::io::{Read as _, Write as _};

use super::*;

/// Starts a server that sends this answer to every request.
fn server(folder: &Path, response: &'static [u8]) -> Result<PathBuf> {
    let socket = folder.join("server.sock");
    let listener = UnixListener::bind(&socket)?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while matches!(stream.read(&mut buffer), Ok(1..)) {
                    if stream.write_all(response).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(socket)
}

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn request(proxy: &FaultProxy, line: &str) -> Result<Vec<u8>> {
    let mut client = UnixStream::connect(&proxy.socket)?;
    client.set_read_timeout(Some(std::time::Duration::from_millis(300)))?;
    client.write_all(format!("{line} HTTP/1.1\r\nHost: d\r\n\r\n").as_bytes())?;
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while got.len() < RESPONSE.len() {
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => got.extend(&buffer[..count]),
            // The response stalled: no more data arrives, and the connection stays open.
            Err(_) => {
                got.extend(b"...");
                break;
            }
        }
    }
    Ok(got)
}

#[test]
fn injects_faults_only_into_selected_calls() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let proxy = FaultProxy::to(&server(folder.path(), RESPONSE)?)?;
    let changed = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelln";
    for (fault, expected) in [
        (Fault::CutRequest, &b""[..]),
        (Fault::Cut(BytePosition::Response(3)), b"HTT"),
        (Fault::Cut(BytePosition::Body(0)), &RESPONSE[..RESPONSE.len() - 5]),
        (Fault::Stall(BytePosition::Response(2)), b"HT..."),
        (Fault::Corrupt(BytePosition::Body(4), 1), changed),
    ] {
        proxy.set_faults(&[(EngineCall::Info, fault)]);
        assert_eq!(request(&proxy, "GET /v1.41/version")?, RESPONSE, "{fault:?} struck another call");
        assert_eq!(proxy.injected_count(), 0);
        assert_eq!(request(&proxy, "GET /v1.41/info")?, expected, "{fault:?}");
        assert_eq!(proxy.injected_count(), 1);
        assert_eq!(proxy.calls(), [EngineCall::Version, EngineCall::Info]);
    }
    Ok(())
}

#[test]
fn identifies_calls_by_method_and_path() {
    for (line, call) in [
        ("HEAD /_ping HTTP/1.1", EngineCall::Ping),
        ("GET /version HTTP/1.1", EngineCall::Version),
        ("GET /v1.41/images/localhost/a:1/json HTTP/1.1", EngineCall::Image),
        ("POST /v1.41/containers/create?name=codebox-run-x HTTP/1.1", EngineCall::Create),
        ("POST /v1.41/containers/0a1b/attach?stdin=true HTTP/1.1", EngineCall::Attach),
        ("POST /containers/0a1b/start HTTP/1.1", EngineCall::Start),
        ("GET /containers/0a1b/json HTTP/1.1", EngineCall::Inspect),
        ("GET /v1.41/containers/json?all=true HTTP/1.1", EngineCall::List),
        ("DELETE /v1.41/containers/0a1b?force=true HTTP/1.1", EngineCall::Remove),
        ("GET /v1.41/containers/0a1b/logs HTTP/1.1", EngineCall::Other),
    ] {
        assert_eq!(EngineCall::of(line), call, "{line}");
    }
}
