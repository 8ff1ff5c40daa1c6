//! Measurements of host tools and of the MCP server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebox::tools::{Tool, Toolbox};
use codebox::{AppDirs, Request, Runner, ToolName};
use serde_json::{Value, json};

use super::measured::{home, median, row};
use super::table::Row;

const PROGRAM: &str = "print(1)";

/// Calls a tool, and prints the median time of a call in milliseconds.
const CALLS: &str = "\
import time
from codebox import tools
times = []
for number in range(COUNT):
    before = time.perf_counter()
    answer = tools.echo(number=number)
    times.append(time.perf_counter() - before)
    assert answer == {'number': number}
times.sort()
print(times[len(times) // 2] * 1e3)";

fn runner(place: Place, home: &Path) -> Arc<Runner> {
    let echo = Tool::new("echo", "", json!({ "type": "object" }), |input| async move { Ok(input) });
    let toolbox = Toolbox::new([echo.expect("a tool")]).expect("one tool");
    let toolbox = toolbox.with_budgets(codebox::tools::ToolBudgets { calls: u64::MAX, ..Default::default() });
    let builder = codebox::builder(AppDirs::below(home)).tools(toolbox);
    Arc::new(match place {
        Place::ThisProcess => builder.build(),
        Place::Workers => builder.workers(env!("CARGO_BIN_EXE_codebox")).build(),
    })
}

#[derive(Clone, Copy)]
enum Place {
    ThisProcess,
    Workers,
}

/// Returns the median time of a call of a tool, measured by the program.
fn tool_call(place: Place, home: &Path, count: usize) -> Duration {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tools = vec![ToolName::new("echo").expect("a name")];
    let request = Request { tools, ..Request::python(CALLS.replace("COUNT", &count.to_string())) };
    let report = executor.expect("an executor").block_on(runner(place, home).run_async(request)).expect("a report");
    assert!(report.is_success(), "{}", report.stderr.to_text_lossy());
    Duration::from_secs_f64(report.stdout.to_text_lossy().trim().parse::<f64>().expect("a number") / 1e3)
}

/// Returns the median times of a run by the MCP server and by the library with workers, in alternation.
fn mcp_run(home: &Path, count: usize) -> (Duration, Duration) {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let executor = executor.expect("an executor");
    let runner = runner(Place::Workers, home);
    let library = || {
        let started = Instant::now();
        let request = Request { results: true, ..Request::python(PROGRAM) };
        let report = executor.block_on(runner.run_async(request)).expect("a report");
        assert_eq!(report.stdout.to_text_lossy(), "1\n");
        started.elapsed()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_codebox"));
    command.arg("mcp").env("CODEBOX_HOME", home).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let mut input = server.stdin.take().expect("a pipe");
    let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut request = |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("the server answers");
        serde_json::from_str::<Value>(&line).expect("a message")
    };
    let client = json!({ "name": "bench", "version": "1" });
    request("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }));
    let mut mcp = || {
        let started = Instant::now();
        let answer = request("tools/call", json!({ "name": "run", "arguments": { "code": PROGRAM } }));
        assert_eq!(answer["result"]["structuredContent"]["stdout"], "1\n", "{answer}");
        started.elapsed()
    };
    // The first ones are not counted.
    mcp();
    library();
    let times: (Vec<Duration>, Vec<Duration>) = (0..count).map(|_| (mcp(), library())).unzip();
    drop(input);
    server.wait().expect("it ends");
    (median(times.0), median(times.1))
}

pub fn rows(count: usize) -> Vec<Row> {
    let home: PathBuf = home();
    let detail = |count: usize| format!("p50 of {count}");
    let (here, worker) = (tool_call(Place::ThisProcess, &home, count), tool_call(Place::Workers, &home, count));
    let runs = count.min(200);
    let (mcp, library) = mcp_run(&home, runs);
    vec![
        row("call of a host tool from a program in a worker", Some(0.1), worker, detail(count)),
        row("the same in this process", None, here, detail(count)),
        row(
            "`run` of `print(1)` by the MCP server, beyond a run of the library",
            Some(2.0),
            mcp.saturating_sub(library),
            format!("{}, {:.2} and {:.2} ms", detail(runs), mcp.as_secs_f64() * 1e3, library.as_secs_f64() * 1e3),
        ),
    ]
}
