//! Programs that call the tools of MCP servers. The server is that of codebox.

use std::process::Stdio;

use codebox_testkit::ProcessResult;
use serde_json::Value;

use crate::client::kit;

/// Runs a program with a server that has the name `box`.
fn run(args: &[&str]) -> ProcessResult {
    let server = format!("box={} mcp", kit().binary().display());
    let command = kit().codebox().args(["run", "--mcp", &server]);
    command.args(args.iter().map(|arg| (*arg).to_owned())).run().expect("it runs")
}

#[test]
fn programs_call_tools_of_servers() {
    let text = "
from codebox import tools, ToolError
assert 'box.run' in list(tools)
answer = tools.box_run(code='6 * 7')
print(answer['value'], answer['isolation'])
try: tools.box_run(code=1)
except ToolError as error: print(error.kind)
try: tools.box_run(code='1 / 0')
except ToolError as error: print(error.kind, 'ZeroDivisionError' in str(error))
print('Run a program' in tools.box_run.__doc__)
";
    let ran = run(&["-c", text]);
    assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{}", ran.stdout_text());
    assert_eq!(ran.stdout_text(), "42 wasm\ninvalid_input\nfailed True\nTrue\n");
    let text = "import { tools } from 'codebox'; console.log((await tools['box.explain']({ code: '1' })).isolation); process.exit(3)";
    let ran = run(&["--lang", "js", "--json", "-c", text]);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout_text());
    let report: Value = serde_json::from_str(&ran.stdout_text()).expect("a report");
    assert_eq!(report["stdout"], "wasm\n");
    assert_eq!(report["tool_calls"][0]["name"], "box.explain");
}

/// Runs a program with the server of `server.py`, which has unusual tools.
fn run_with_unusual_tools(options: &[&str], text: &str) -> ProcessResult {
    let command = kit().codebox().args(["run", "--quiet", "--mcp", &unusual_server("")]);
    command.args(options.iter().map(|one| (*one).to_owned())).args(["-c", text]).run().expect("it runs")
}

/// Returns the command of the server.
fn unusual_server(options: &str) -> String {
    format!("python3 {}/tests/mcp/server.py {options}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_tool_does_not_affect_the_others() {
    let text = "
from codebox import tools, ToolError
print(tools.echo(x=1), tools.mail(**{'from': 'me', 'others': 2}), tools.a_b(), 'c_d' in dir(tools))
try: tools.c_d()
except AttributeError as error: print(error)
print(tools['a-b'](), tools.lookahead(x='aa'), 'broken' in list(tools))
for value in (float('nan'), '\\ud800', 'x' * 3_000_000):
    try: tools.echo(x=value)
    except ToolError as error: print(error.kind)
try: tools.lookahead(x='ba')
except ToolError as error: print(error.kind)
try: tools.fail()
except ToolError as error: print(error.kind, len(str(error)))
";
    let ran = run_with_unusual_tools(&[], text);
    assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{}", ran.stdout_text());
    let expected = "echo mail a_b False\nc_d is the name of several host tools: use tools['c-d'], for instance\na-b lookahead False\n\
                    invalid_input\ninvalid_input\ninvalid_input\ninvalid_input\nfailed 4000\n";
    assert_eq!(ran.stdout_text(), expected);
    let noted = kit().codebox().args(["run", "--mcp", &unusual_server(""), "-c", "1"]).run().expect("it runs");
    assert!(noted.stderr_text().contains("the tool broken of `python3 "), "{}", noted.stderr_text());
}

#[test]
fn messages_that_cannot_be_read_fail_their_calls() {
    for (tool, reason) in [("big", "more than 16777216 bytes"), ("deep", "recursion limit")] {
        let text = format!(
            "from codebox import tools, ToolError\ntry: tools.{tool}()\nexcept ToolError as error: print(error.kind, error)"
        );
        let ran = run_with_unusual_tools(&[], &text);
        assert!(
            ran.stdout_text().starts_with("failed ") && ran.stdout_text().contains(reason),
            "{}",
            ran.stdout_text()
        );
    }
}

/// The time of such a check grows exponentially with the depth of the value.
#[test]
fn limits_apply_during_the_check_of_a_value() {
    let text = "
from codebox import tools, ToolError
value = 1
for _ in range(60): value = [value]
try: tools.tree(a=value)
except ToolError as error: print(error.kind)
";
    let ran = run_with_unusual_tools(&["--timeout", "1s"], text);
    assert_eq!(ran.code, Some(124), "{}", ran.stdout_text());
    let again = format!("{text}try: tools.tree(a=[1])\nexcept ToolError as error: print(error.kind)\n");
    let ran = run_with_unusual_tools(&[], &again);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "budget\nbudget\n"), "{}", ran.stderr_text());
}

#[test]
fn refused_calls_do_not_hide_others() {
    let text = "
from codebox import tools
call = tools.echo.__globals__['_host'].call
for _ in range(990): call(b'\\x04nothing\\0{}')
tools.echo(x='secret')
for _ in range(20): call(b'\\x04nothing\\0{}')
";
    let ran = run_with_unusual_tools(&["--json"], text);
    let report: Value = serde_json::from_str(&ran.stdout_text()).expect("a report");
    let calls = report["tool_calls"].as_array().expect("calls");
    assert!(calls.iter().any(|call| call["name"] == "echo" && call["failure"].is_null()), "{}", calls.len());
    assert_eq!((calls.len(), &report["tool_calls_dropped"]), (101, &Value::from(910)));
}

#[test]
fn servers_end_with_the_run() {
    let folder = kit().folder().expect("a directory");
    let file = folder.path().join("pid");
    let is_running = || {
        let pid: i32 = std::fs::read_to_string(&file).expect("a number").parse().expect("a number");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    let server = unusual_server(&format!("child {}", file.display()));
    let ran = kit().codebox().args(["run", "--quiet", "--mcp", &server, "-c", "print(1)"]).run().expect("it runs");
    assert_eq!(ran.stdout_text(), "1\n", "{}", ran.stderr_text());
    while is_running() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Also if it is interrupted while the server starts.
    std::fs::remove_file(&file).expect("it is ours");
    let server = unusual_server(&format!("hang child {}", file.display()));
    let mut command = kit().codebox().args(["run", "--mcp", &server, "-c", "1"]).command();
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    while !file.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    while is_running() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ran = kit().codebox().args(["run", "--mcp", &unusual_server("endless"), "-c", "1"]).run().expect("it runs");
    assert_eq!(ran.code, Some(125));
    assert!(
        ran.stderr_text().contains("it has more than 1000 tools, or their descriptions more than 8388608 bytes"),
        "{}",
        ran.stderr_text()
    );
}

#[test]
fn servers_that_cannot_be_used_are_named() {
    let refused = |servers: &[&str]| {
        let options = servers.iter().flat_map(|server| ["--mcp", *server]);
        let ran = kit().codebox().arg("run").args(options).args(["-c", "print(1)"]).run().expect("it runs");
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(125), ""), "{}", ran.stderr_text());
        ran.stderr_text()
    };
    assert!(
        refused(&["/nonexistent/server --a"])
            .contains("cannot use the MCP server `/nonexistent/server --a`: cannot start /nonexistent/server: ")
    );
    assert!(refused(&["true"]).contains("cannot use the MCP server `true`: "));
    assert!(refused(&["echo hello"]).contains("cannot use the MCP server `echo hello`: "));
    let own = format!("{} mcp", kit().binary().display());
    assert!(refused(&[&own, &own]).contains("there are two tools"), "{}", refused(&[&own, &own]));
    let malformed = kit().codebox().args(["run", "--mcp", "a 'b", "-c", "1"]).run().expect("it runs");
    assert!(malformed.stderr_text().contains("quote"), "{}", malformed.stderr_text());
}

#[test]
fn interrupted_calls_end_with_their_servers() {
    let server = format!("box={} mcp", kit().binary().display());
    let text = "from codebox import tools\nprint('started', flush=True)\ntools.box_run(code='while True: pass')";
    let command = kit().codebox().args(["run", "--mcp", &server, "-c", text]);
    let mut command = command.command();
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut started = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut started).expect("output");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    rustix::process::kill_process_group(pid, rustix::process::Signal::INT).expect("it is ours");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
