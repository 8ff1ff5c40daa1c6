//! Small requests to a loopback server in this process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};

const WHAT: &str = "1,000 small requests with `urllib.request` to a loopback server vs native Python";

/// Guest program; `PORT` stands for the server's port.
const PROGRAM: &str = "\
import urllib.request
total = 0
for _ in range(1000):
    with urllib.request.urlopen('http://127.0.0.1:PORT/') as response:
        total += len(response.read())
print(total)
";

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// Compares whole processes that make the requests one after another.
///
/// # Errors
/// Fails if an output is wrong.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
    let port = listener.local_addr().context("get the server's port")?.port();
    thread::spawn(move || listener.incoming().flatten().for_each(respond));
    let program = PROGRAM.replace("PORT", &port.to_string());
    let mut codebox = inputs.codebox();
    codebox.args(["--net", &format!("127.0.0.1:{port}"), "-c", &program]);
    let mut native = inputs.python.command();
    // Proxy settings of this machine must not affect the comparison.
    native.env("NO_PROXY", "*").args(["-c", &program]);
    let runs = inputs.runs.long;
    let (one, other) = (
        Subject { command: codebox, expected_output: "5000\n" },
        Subject { command: native, expected_output: "5000\n" },
    );
    let medians = run_alternately(one, other, runs)?;
    Ok(Row { what: WHAT, max_ratio: Some(1.5), measurement: Ok(Measurement::of(&medians, format!("{runs} each"))) })
}

/// Answers one request. Ignores write errors, because a failed client reports its own error.
fn respond(stream: TcpStream) {
    let mut lines = BufReader::new(&stream).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let _ = (&stream).write_all(RESPONSE);
}
