//! Lua: the module `socket`, over the contract's connections.

use anyhow::{Result, ensure};

use crate::TestEnvironment;

/// Body of a case.
type TestBody = fn(&TestEnvironment) -> Result<()>;

/// Cases: name and body.
pub const CASES: &[(&str, TestBody)] = &[
    ("requests_and_patterns", requests_and_patterns),
    ("transfers_large_bodies", transfers_large_bodies),
    ("uses_host_tls", uses_host_tls),
    ("reports_timeouts_and_closed_connections", reports_timeouts_and_closed_connections),
    ("rejects_ungranted_hosts", rejects_ungranted_hosts),
    ("closes_collected_connections", closes_collected_connections),
];

/// Function that sends a request and returns the connection and the status line, with the headers read.
const REQUEST: &str = r"
local socket = require 'socket'
local function request(c, method, path, body)
  assert(c:send(method .. ' ' .. path .. ' HTTP/1.1\r\nConnection: close\r\nContent-Length: ' .. #body .. '\r\n\r\n' .. body))
  local status = assert(c:receive())
  repeat until assert(c:receive()) == ''
  return status
end
";

fn requests_and_patterns(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
local c = assert(socket.connect('127.0.0.1', PLAIN))
print(request(c, 'GET', '/hello', ''))
print(c:receive(2), c:receive(0) == '', c:receive('*a'), c:receive('*a') == '', c:receive(1))
print(pcall(c.receive, c, '*x'))
print(c:close(), c:close())
";
    let expected = "HTTP/1.1 200 OK\nhe\ttrue\tllo\ttrue\tnil\tclosed\t\nfalse\tbad argument #2 to '?' (invalid receive pattern)\n1\t1\n";
    check_prints(test_env, text, &test_env.all(), expected).map(drop)
}

fn transfers_large_bodies(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
local body = ('0123456789abcdef'):rep(3 << 16)
local c = assert(socket.connect('127.0.0.1', PLAIN))
print(request(c, 'POST', '/echo', body), c:receive('*a') == body)
";
    check_prints(test_env, text, &test_env.all(), "HTTP/1.1 200 OK\ttrue\n").map(drop)
}

fn uses_host_tls(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
local c = assert(socket.connect('localhost', TLS))
assert(c:starttls('localhost'))
print(request(c, 'GET', '/hello', ''), c:receive('*a'))
c = assert(socket.connect('localhost', MISNAMED))
local done, why = c:starttls('localhost')
print(done, why:match('certificate') ~= nil, c:send('x'))
c = assert(socket.connect('localhost', TLS))
done, why = c:starttls('elsewhere.example')
print(done, why)
";
    let report = test_env.run_lua(&[REQUEST, text].concat(), &test_env.all())?;
    let stdout = report.stdout();
    let (first, rest) = stdout.split_once('\n').unwrap_or_default();
    ensure!(first == "HTTP/1.1 200 OK\thello", "{}", report.json());
    let lines: Vec<&str> = rest.lines().collect();
    ensure!(lines.len() == 2 && lines[0] == "nil\ttrue\tnil\tclosed\t0", "{}", report.json());
    ensure!(lines[1].starts_with("nil\t") && lines[1].contains("elsewhere.example"), "{}", report.json());
    Ok(())
}

fn reports_timeouts_and_closed_connections(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
local c = socket.tcp()
print(c:send('x'))
print(c:receive())
print(c:settimeout(0.05), c:connect('127.0.0.1', PLAIN), c:receive())
print(c:connect('127.0.0.1', PLAIN))
print(c:settimeout(), c:shutdown('send'), c:receive())
";
    let expected = "nil\tclosed\t0\nnil\tclosed\t\n1\t1\tnil\ttimeout\t\nnil\talready connected\n1\t1\tnil\tclosed\t\n";
    check_prints(test_env, text, &test_env.all(), expected).map(drop)
}

fn rejects_ungranted_hosts(test_env: &TestEnvironment) -> Result<()> {
    let text = "print(socket.connect('127.0.0.1', PLAIN))\nprint(socket.connect('other.example', 80))\n";
    let report = test_env.run_lua(&[REQUEST, text].concat(), &["*.granted.example".to_owned()])?;
    ensure!(report.stdout().lines().filter(|line| line.starts_with("nil\t")).count() == 2, "{}", report.json());
    ensure!(report.at("/network/attempts/0/verdict") == "refused", "{}", report.at("/network"));
    let report = test_env.run_lua(&[REQUEST, text].concat(), &[])?;
    ensure!(report.stdout().contains("network access is not granted to this sandbox"), "{}", report.json());
    Ok(())
}

/// The guest may hold 256 connections; those that the program drops are closed.
fn closes_collected_connections(test_env: &TestEnvironment) -> Result<()> {
    let text = r"
for _ = 1, 400 do
  assert(socket.connect('127.0.0.1', PLAIN))
  collectgarbage()
end
local open, why = {}
repeat
  open[#open + 1], why = socket.connect('127.0.0.1', PLAIN)
until why
print(#open <= 256, why ~= nil)
";
    check_prints(test_env, text, &test_env.all(), "true\ttrue\n").map(drop)
}

/// Runs a program after [`REQUEST`] that must print this text and succeed.
fn check_prints(
    test_env: &TestEnvironment,
    text: &str,
    grants: &[String],
    expected: &str,
) -> Result<codebox_testkit::Report> {
    let report = test_env.run_lua(&[REQUEST, text].concat(), grants)?;
    ensure!(report.outcome() == "exited 0", "failed: {}", report.json());
    ensure!(report.stdout() == expected, "printed {:?} and not {expected:?}", report.stdout());
    Ok(report)
}
