//! Callers of boxes: agents over MCP, and host tools.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Sandbox;
use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("box::agents_use_named_boxes", agents_use_named_boxes), row("box::tools_run_in_boxes", tools_run_in_boxes)]
}

fn agents_use_named_boxes(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--output-lines", "3"])?;
    let other = Sandbox::start(test_env, &[])?;
    let mut server = test_env.codebox().args(["mcp", "--box", &sandbox.name]).command();
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (mut input, output) = (server.stdin.take().context("a pipe")?, server.stdout.take().context("a pipe")?);
    let mut lines = BufReader::new(output).lines();
    let mut number = 0;
    let mut request = |method: &str, params: Value| -> Result<Value> {
        number += 1;
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }))?;
        loop {
            let line = lines.next().context("the server has ended")??;
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == number {
                return Ok(message["result"].clone());
            }
        }
    };
    request(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } }),
    )?;
    let tools = request("tools/list", json!({}))?;
    ensure!(tools["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "box_exec")));
    let mut exec = |arguments: Value| request("tools/call", json!({ "name": "box_exec", "arguments": arguments }));
    let done = exec(json!({ "command": ["sh", "-c", "cat; seq 1 9; exit 4"], "stdin": "in\n", "workdir": "/tmp" }))?;
    let content = &done["structuredContent"];
    ensure!(content["stdout"] == "in\n1\n2\n...[truncated]" && content["exit_status"] == 4, "{done}");
    let late = exec(json!({ "command": ["sleep", "60"], "timeout_seconds": 0.3 }))?;
    ensure!(late["isError"] == true && late["structuredContent"]["outcome"] == "limit_hit", "{late}");
    ensure!(late["content"][0]["text"].as_str().is_some_and(|text| text.contains("limit of 300ms")), "{late}");
    for arguments in [
        json!({ "command": ["true"], "box": other.name }),
        json!({ "command": [] }),
        json!({ "command": ["true"], "image": "x" }),
    ] {
        let refused = exec(arguments.clone())?;
        ensure!(refused["isError"] == true && refused["structuredContent"].is_null(), "{arguments}: {refused}");
    }
    drop(input);
    server.wait()?;
    Ok(())
}

fn tools_run_in_boxes(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--env", "TOK=box-secret-1"])?;
    let config = format!(
        "[tools.leaks]\nbox = {0:?}\nrun = ['sh', '-c', 'echo of $TOK >&2; echo {{\"a\": \"$TOK\"}}; exit 3']\n\n[tools.count]\nbox = {0:?}\nrun = ['python3', '-c', 'import json, sys; print(len(json.load(sys.stdin)[\"text\"]))']\n\n[tools.fails]\nbox = {0:?}\nrun = ['sh', '-c', 'echo why >&2; exit 3']\n\n[tools.gone]\nbox = 'no-such-box'\nrun = ['true']\n\n[tools.missing]\nbox = {0:?}\nrun = ['no-such-program']\n\n[tools.slow]\nbox = {0:?}\nrun = ['sh', '-c', 'echo early; touch /tmp/started; sleep 600']\n",
        sandbox.name
    );
    std::fs::write(test_env.home().join("config/config.toml"), config)?;
    let call = |name: &str, input: &str| -> Result<(Option<i32>, Value)> {
        let called = test_env.codebox().args(["tool", "call", name, "--input", input]).run()?;
        Ok((called.code, serde_json::from_str(&called.stdout_text()).with_context(|| called.stderr_text())?))
    };
    let (status, result) = call("count", &json!({ "text": "x".repeat(100_000) }).to_string())?;
    ensure!(status == Some(0) && result["output"] == 100_000, "{result}");
    let container = &result["metadata"]["container"];
    ensure!(container["id"] == sandbox.container_id()?.as_str() && container["directory"] == "/work", "{result}");
    let (status, result) = call("fails", "{}")?;
    ensure!(
        status == Some(1) && result["error"]["stderr"] == "why" && result["metadata"]["exit_code"] == 3,
        "{result}"
    );
    let (_, leaked) = call("leaks", "{}")?;
    ensure!(leaked["error"]["stderr"] == "of ***" && !leaked.to_string().contains("box-secret"), "{leaked}");
    ensure!(leaked["metadata"]["partial_output"] == "{a: ***}", "{leaked}");
    let records = test_env.codebox().args(["audit", "list", "--json"]).run()?.stdout_text();
    let records: Value = serde_json::from_str(&records)?;
    let events = records["records"].as_array().context("records")?.iter().map(|record| &record["event"]);
    let command = events.into_iter().find(|event| event["type"] == "started" && event["tool"] == "fails");
    let command = command.with_context(|| records.to_string())?;
    ensure!(command["box"] == sandbox.name.as_str() && command["id"] == result["metadata"]["job"], "{command}");
    for name in ["gone", "missing"] {
        let (status, result) = call(name, "{}")?;
        ensure!(status == Some(125) && result["error"]["kind"] == "unavailable", "{result}");
    }
    // A signal to the caller ends the command.
    let mut slow = test_env.codebox().args(["tool", "call", "slow"]).command();
    let slow = slow.stdout(Stdio::piped()).spawn()?;
    // The file is there after the output, which the command may not have written when it starts to count as running.
    wait_until_empty(|| {
        let is_started = sandbox.exec(&["test", "-e", "/tmp/started"])?.code == Some(0);
        Ok(if is_started { Vec::new() } else { vec!["a command that has not started".to_owned()] })
    })?;
    let running = &sandbox.info()?["running"];
    ensure!(*running == 1, "{running} commands");
    rustix::process::kill_process(rustix::process::Pid::from_child(&slow), rustix::process::Signal::INT)?;
    let ended = slow.wait_with_output()?;
    let result: Value = serde_json::from_slice(&ended.stdout)?;
    ensure!(ended.status.code() == Some(130) && result["error"]["kind"] == "interrupted", "{result}");
    ensure!(result["metadata"]["partial_output"] == "early", "{result}");
    // A project's tools cannot use the boxes of the user.
    let project = test_env.kit.folder()?;
    std::fs::write(
        project.path().join("codebox.toml"),
        format!("[tools.x]\nbox = {:?}\nrun = ['true']\n", sandbox.name),
    )?;
    let refused = test_env.codebox().folder(project.path()).args(["tool", "list"]).run()?;
    ensure!(refused.code == Some(125) && refused.stderr_text().contains("box"), "{}", refused.stderr_text());
    Ok(())
}
