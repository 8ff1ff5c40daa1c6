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

#[test]
fn servers_that_cannot_be_used_are_named() {
    let refused = |servers: &[&str]| {
        let options = servers.iter().flat_map(|server| ["--mcp", *server]);
        let ran = kit().codebox().arg("run").args(options).args(["-c", "print(1)"]).run().expect("it runs");
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(125), ""), "{}", ran.stderr_text());
        ran.stderr_text()
    };
    assert!(refused(&["/nonexistent/server --a"]).contains("cannot use the MCP server `/nonexistent/server --a`: "));
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
