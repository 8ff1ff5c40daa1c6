//! Simultaneous traffic in both directions, and the end of a connection when its program ends.

use std::io::{ErrorKind, Read as _};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::allowed::python;
use super::server::Server;
use crate::test_env::TestEnvironment;

/// Each direction carries more data than all buffers between hold, over many connections at once.
pub fn bidirectional(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::echo()?;
    let (grant, port) = (format!("localhost:{}", server.port), server.port.to_string());
    let text = "import concurrent.futures as f, socket, sys, threading\n\
        sent = bytes(range(256)) * 40000\n\
        def echo(_):\n    one = socket.create_connection(('localhost', int(sys.argv[1])))\n    \
        def send():\n        one.sendall(sent)\n        one.shutdown(socket.SHUT_WR)\n    \
        threading.Thread(target=send).start()\n    \
        return b''.join(iter(lambda: one.recv(65536), b'')) == sent\n\
        with f.ThreadPoolExecutor(10) as pool: print(list(pool.map(echo, range(10))).count(True))";
    let report = test_env.run_expecting("ok", 0, python(test_env.run().args(["--net", &grant]), text, &[&port]))?;
    ensure!(report.stdout() == "10\n", "{}", report.stdout());
    let all = 10 * 256 * 40_000;
    ensure!(report.at("/network/sent") == all && report.at("/network/received") == all, "{}", report.at("/network"));
    Ok(())
}

/// Returns the number of bytes that a server reads and the error that ended the stream, if any.
fn count_received(
    test_env: &TestEnvironment,
    text: &str,
    kind: &str,
    code: i64,
    delay: Duration,
) -> Result<(usize, Option<ErrorKind>)> {
    let (sender, received) = channel();
    let server = Server::start(move |mut stream| {
        thread::sleep(delay);
        let (mut count, mut buffer) = (0, vec![0; 8 << 10]);
        let error_kind = loop {
            match stream.read(&mut buffer) {
                Ok(0) => break None,
                Ok(read) => count += read,
                Err(error) => break Some(error.kind()),
            }
        };
        Ok(sender.send((count, error_kind))?)
    })?;
    let (grant, port) = (format!("localhost:{}", server.port), server.port.to_string());
    test_env.run_expecting(
        kind,
        code,
        python(test_env.run().args(["--net", &grant, "--timeout", "3s"]), text, &[&port]),
    )?;
    received.recv_timeout(Duration::from_secs(30)).context("server saw no end of stream")
}

/// All data that a program sent before its end arrives.
pub fn data_before_exit(test_env: &TestEnvironment) -> Result<()> {
    let text = "import os, socket, sys\n\
        one = socket.create_connection(('localhost', int(sys.argv[1])))\n\
        one.sendall(bytes(3000000))\nos._exit(0)";
    let received = count_received(test_env, text, "ok", 0, Duration::ZERO)?;
    ensure!(received == (3_000_000, None), "{received:?}");
    Ok(())
}

/// The connection of a program that is killed during a transfer ends with a reset, not as complete.
pub fn reset_on_kill(test_env: &TestEnvironment) -> Result<()> {
    let text = "import socket, sys\n\
        one = socket.create_connection(('localhost', int(sys.argv[1])))\n\
        while True: one.sendall(bytes(100000))";
    let (count, error_kind) = count_received(test_env, text, "timeout_wall", 124, Duration::from_secs(8))?;
    ensure!(error_kind == Some(ErrorKind::ConnectionReset), "{count} bytes, {error_kind:?}");
    Ok(())
}
