//! Traffic, connections and time are limited, for clients and servers that flood or stall.

use std::io::{Read as _, Write as _};

use anyhow::{Result, ensure};

use super::server::{OK, Server};
use crate::test_env::TestEnvironment;

pub fn bytes(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::with_response(OK, vec![b'x'; 8 << 20])?;
    let (grant, url) = (format!("localhost:{}", server.port), format!("http://localhost:{}/", server.port));
    let text = "import sys, urllib.request\nprint('begun', flush=True)\nwhile True: urllib.request.urlopen(sys.argv[1]).read()";
    let job = test_env.run().args(["--net", &grant, "--max-net-bytes", "3M", "--lang", "python", "-c", text, &url]);
    let report = test_env.run_expecting("net_limit", 122, job)?;
    ensure!(report.outcome() == "limit net_bytes" && report.stdout() == "begun\n", "{}", report.json());
    let used = report.at("/network/sent").as_u64().zip(report.at("/network/received").as_u64());
    ensure!(used.is_some_and(|(sent, received)| sent + received == 3 << 20), "{}", report.at("/network"));
    Ok(())
}

pub fn connections(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::echo()?;
    let (grant, port) = (format!("localhost:{}", server.port), server.port.to_string());
    // A port forward accepts a connection before it dials the host; a response proves that the server has the
    // connection.
    let text = "import socket, sys, time\nkept = []\n\
        for _ in range(6):\n    one = socket.create_connection(('localhost', int(sys.argv[1])))\n    kept.append(one)\n    \
        one.sendall(b'x')\n    one.recv(1)\ntime.sleep(60)";
    let job =
        test_env.run().args(["--net", &grant, "--max-net-connections", "5", "--lang", "python", "-c", text, &port]);
    let report = test_env.run_expecting("net_limit", 122, job)?;
    ensure!(report.outcome() == "limit net_connections", "{}", report.json());
    ensure!(server.connection_count() == 5, "{} connections", server.connection_count());
    Ok(())
}

/// A server that never answers blocks neither output nor the deadline.
pub fn stalled_server(test_env: &TestEnvironment) -> Result<()> {
    let server = Server::start(|mut stream| {
        // Reads and writes nothing until the peer is gone.
        std::thread::sleep(std::time::Duration::from_secs(20));
        Ok(stream.read(&mut [0]).map(drop)?)
    })?;
    let (grant, port) = (format!("localhost:{}", server.port), server.port.to_string());
    let text = "import socket, sys, threading, time\n\
        def send():\n    one = socket.create_connection(('localhost', int(sys.argv[1])))\n    \
        while True: one.sendall(bytes(1 << 20))\n\
        for _ in range(4): threading.Thread(target=send, daemon=True).start()\n\
        time.sleep(1)\nprint('x' * 3000000, flush=True)\ntime.sleep(60)";
    let job = test_env.run().args(["--net", &grant, "--timeout", "5s", "--lang", "python", "-c", text, &port]);
    let report = test_env.run_expecting("timeout_wall", 124, job)?;
    ensure!(report.stdout().len() == 3_000_001, "{} bytes were received", report.stdout().len());
    Ok(())
}

/// A program that does not read its input blocks only itself.
pub fn unread_data(test_env: &TestEnvironment) -> Result<()> {
    let flood = Server::start(|mut stream| {
        loop {
            stream.write_all(&[0; 1 << 16])?;
        }
    })?;
    let echo = Server::echo()?;
    let grants = [format!("localhost:{}", flood.port), format!("localhost:{}", echo.port)];
    let text = "import socket, sys\n\
        flood, echo = map(int, sys.argv[1:])\n\
        kept = [socket.create_connection(('localhost', flood)) for _ in range(20)]\n\
        one = socket.create_connection(('localhost', echo))\n\
        for _ in range(1000):\n    one.sendall(b'x' * 100)\n    got = 0\n    while got < 100: got += len(one.recv(100))\n\
        print('done')";
    let ports = [flood.port.to_string(), echo.port.to_string()];
    let job =
        test_env.run().args(["--net", &grants[0], "--net", &grants[1], "--lang", "python", "-c", text]).args(ports);
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout() == "done\n", "{}", report.stdout());
    // Data in flight is bounded by windows and by the system's socket buffers.
    ensure!(report.at("/network/received").as_u64() < Some(200 << 20), "{}", report.at("/network/received"));
    Ok(())
}
