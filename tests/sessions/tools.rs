//! Host tools of the library, in programs and sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codebox::tools::{Approval, Tool, ToolBudgets, Toolbox};
use codebox::{Limit, LimitOverrides, Outcome, Program, Request, ResultKind, RunReport, ToolFailure, ToolName};
use serde_json::{Value, json};

use crate::support::{Home, PLACES, Place, TestSession};

fn search() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "the words to look for" },
            "limit": { "type": "integer", "minimum": 1 },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let output = json!({ "type": "object", "properties": { "found": { "type": "array" } }, "required": ["found"] });
    let search = |input: Value| async move {
        // The tool uses the executor of the run.
        tokio::time::sleep(Duration::from_millis(1)).await;
        match input["query"].as_str() {
            Some("missing") => Err(ToolFailure::new("not_found", "nothing was found")),
            Some("wrong") => Ok(json!([1])),
            query => Ok(json!({ "found": [query, input["limit"]] })),
        }
    };
    let tool = Tool::new("search", "Searches the documents.", input, search).expect("a tool");
    tool.with_output(output).expect("a schema")
}

fn add() -> Tool {
    let add = |input: Value| Ok(json!(input["a"].as_f64().unwrap_or(0.0) + input["b"].as_f64().unwrap_or(0.0)));
    Tool::blocking("math.add-numbers", "Adds two numbers.", json!({ "type": "object" }), add).expect("a tool")
}

fn toolbox() -> Toolbox {
    Toolbox::new([search(), add()]).expect("two tools")
}

fn granted(request: Request, names: &[&str]) -> Request {
    let tools = names.iter().map(|name| ToolName::new(*name).expect("a name")).collect();
    Request { tools, ..request }
}

fn all(request: Request) -> Request {
    granted(request, &["search", "math.add-numbers"])
}

/// Runs a program that succeeds, and returns its report.
#[track_caller]
fn run(home: &Home, place: Place, toolbox: Toolbox, request: Request) -> RunReport {
    let runner = home.runner_with(place, |builder| builder.tools(toolbox));
    let report = home.wait(runner.run_async(request)).expect("a report");
    assert!(report.is_success(), "{:#?}\n{}", report.error, report.stderr.to_text_lossy());
    report
}

#[test]
fn programs_in_python_call_tools() {
    let home = Home::new();
    let text = r#"
import asyncio, inspect, json, codebox
from codebox import tools, ToolError
assert tools.search(query="a") == {"found": ["a", None]}
assert tools.search("b", 2)["found"] == ["b", 2]
assert tools["math.add-numbers"](a=1, b=2) == tools.math_add_numbers(a=1.5, b=1.5) == 3
async def later():
    assert (await tools.search(query="c"))["found"] == ["c", None]
    both = await asyncio.gather(tools.search.coroutine("d"), tools.search.coroutine("e"))
    assert [one["found"][0] for one in both] == ["d", "e"]
asyncio.run(later())
def fails(function, kind):
    try:
        function()
    except ToolError as error:
        assert error.kind == kind, (error.kind, str(error))
        return str(error)
    raise AssertionError(kind)
assert fails(lambda: tools.search(query="missing"), "not_found") == "nothing was found"
assert "query" in fails(lambda: tools.search(query=1), "invalid_input")
fails(lambda: tools.search(query="x", limit=0), "invalid_input")
fails(lambda: tools.search(query="wrong"), "invalid_output")
fails(lambda: tools.search(query="\ud800"), "invalid_input")
for wrong in (lambda: tools.search(), lambda: tools.search("a", 1, 2), lambda: tools.search("a", other=1)):
    try: wrong()
    except TypeError: pass
    else: raise AssertionError
assert str(inspect.signature(tools.search)) == "(query: str, limit: int = None) -> dict"
assert "Searches the documents." in tools.search.__doc__ and "the words to look for" in tools.search.__doc__
assert list(tools) == ["math.add-numbers", "search"] and dir(tools) == ["math_add_numbers", "search"]
assert not hasattr(tools, "other") and "search" in repr(tools)
help(tools.search)
import numpy as np
assert tools.math_add_numbers(a=np.float64(1), b=np.int64(2)) == 3
"#;
    for place in PLACES {
        let report = run(&home, place, toolbox(), all(Request::python(text)));
        assert!(report.stdout.to_text_lossy().contains("search(query: str, limit: int = None) -> dict"));
        let failures: Vec<Option<&str>> = report.tool_calls.iter().map(|call| call.failure.as_deref()).collect();
        let expected = [Some("not_found"), Some("invalid_input"), Some("invalid_input"), Some("invalid_output")];
        // A text that JSON cannot contain is not sent.
        assert_eq!(failures[7..11], expected, "{failures:?}");
        assert_eq!((failures.len(), failures.iter().filter(|failure| failure.is_none()).count()), (12, 8));
        let first = &report.tool_calls[0];
        assert_eq!((first.name.as_str(), first.input_bytes, first.output_bytes), ("search", 14, 20));
    }
}

#[test]
fn programs_in_javascript_call_tools() {
    let home = Home::new();
    let text = r#"
import assert from 'node:assert';
import { tools, ToolError } from 'codebox';
assert.deepStrictEqual(await tools.search({ query: 'a' }), { found: ['a', null] });
assert.strictEqual(await tools['math.add-numbers']({ a: 1, b: 2 }), 3);
const [one, two] = await Promise.all([tools.search({ query: 'b' }), tools.search({ query: 'c', limit: 2 })]);
assert.deepStrictEqual([one.found, two.found], [['b', null], ['c', 2]]);
const failed = (input, kind) => assert.rejects(tools.search(input), (error) => error instanceof ToolError && error.kind === kind);
await failed({ query: 'missing' }, 'not_found');
await failed({ query: 1 }, 'invalid_input');
await failed(undefined, 'invalid_input');
await failed({ query: 'wrong' }, 'invalid_output');
assert.strictEqual(tools.other, undefined);
assert.deepStrictEqual(Object.keys(tools), ['math.add-numbers', 'search']);
assert.strictEqual(tools.search.description, 'Searches the documents.');
"#;
    for place in PLACES {
        let report = run(&home, place, toolbox(), all(Request::javascript(text)));
        assert_eq!(report.tool_calls.len(), 8);
    }
    let common =
        "const { tools } = require('codebox'); tools.search({ query: 'a' }).then(({ found }) => console.log(found[0]))";
    let report = run(&home, Place::ThisProcess, toolbox(), all(Request::javascript(common)));
    assert_eq!(report.stdout.to_text_lossy(), "a\n");
    // The module is none of Node's, and a package of this name takes its place.
    let text = "const { builtinModules, isBuiltin } = require('module'); console.log(builtinModules.some((name) => name.includes('codebox')), isBuiltin('codebox'))";
    assert_eq!(
        run(&home, Place::ThisProcess, toolbox(), Request::javascript(text)).stdout.to_text_lossy(),
        "false false\n"
    );
}

#[test]
fn tools_are_denied_by_default() {
    let home = Home::new();
    let text = "
from codebox import tools, ToolError
print(list(tools), tools)
import _host
for name in (b'search', b'math.add-numbers', b'none', b'\\x1b[2J', b'a' * 100_000):
    try: print(_host.call(b'\\x04' + name + b'\\0{\"query\": \"a\"}')[:60])
    except Exception as error: print(type(error).__name__)
";
    for place in PLACES {
        // Without tools, the module exists and is empty.
        let none = run(&home, place, toolbox(), Request::python(text));
        assert!(none.stdout.to_text_lossy().starts_with("[] <host tools: none>\n"), "{}", none.stdout.to_text_lossy());
        assert_eq!(none.tool_calls, []);
        // A program that is granted one tool can neither list nor call another one, also without the module.
        let one = run(&home, place, toolbox(), granted(Request::python(text), &["math.add-numbers"]));
        let shown = one.stdout.to_text_lossy();
        assert!(shown.starts_with("['math.add-numbers'] "), "{shown}");
        let failures: Vec<Option<&str>> = one.tool_calls.iter().map(|call| call.failure.as_deref()).collect();
        assert_eq!(failures, [Some("denied"), None, Some("denied"), Some("denied"), Some("denied")], "{shown}");
        assert!(one.tool_calls.iter().all(|call| call.name.len() <= 128 && !call.name.contains('\u{1b}')));
    }
    let runner = home.runner_with(Place::ThisProcess, |builder| builder.tools(toolbox()));
    let error = home.wait(runner.run_async(granted(Request::python("1"), &["other"]))).expect_err("it is unknown");
    assert_eq!((error.kind(), error.message()), (ResultKind::InvalidRequest, "there is no host tool other"));
    assert_eq!(error.fix(), Some("use one of math.add-numbers, search"));
}

#[test]
fn calls_are_approved_and_limited() {
    let home = Home::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let approve = move |request: codebox::tools::ToolRequest| {
        let query = request.input["query"].as_str().unwrap_or_default().to_owned();
        seen.lock().expect("a lock").push(query.clone());
        async move { query == "yes" }
    };
    let toolbox = || Toolbox::new([search().with_approval(Approval::Ask), add().with_approval(Approval::Deny)]);
    let text = "
from codebox import tools, ToolError
for query in ('yes', 'no', 1):
    try: print(tools.search(query=query))
    except ToolError as error: print(error.kind)
print(list(tools))
";
    let approved = toolbox().expect("two tools").with_approver(approve);
    let report = run(&home, Place::Workers, approved, all(Request::python(text)));
    assert_eq!(report.stdout.to_text_lossy(), "{'found': ['yes', None]}\ndenied\ninvalid_input\n['search']\n");
    assert_eq!(*asked.lock().expect("a lock"), ["yes", "no"]);
    // Without an approver nothing is approved.
    let report = run(&home, Place::ThisProcess, toolbox().expect("two tools"), all(Request::python(text)));
    assert!(report.stdout.to_text_lossy().starts_with("denied\ndenied\n"));
    let budgets = ToolBudgets { calls: 3, bytes: 1000, time: Duration::from_millis(50) };
    let slow = Tool::new("slow", "", json!({}), |input: Value| async move {
        tokio::time::sleep(Duration::from_millis(input["ms"].as_u64().unwrap_or(0))).await;
        Ok(json!("x".repeat(input["size"].as_u64().unwrap_or(0) as usize)))
    });
    let slow = Toolbox::new([slow.expect("a tool")]).expect("one tool").with_budgets(budgets);
    let text = "
from codebox import tools, ToolError
for arguments in ({'ms': 10_000}, {'size': 2000}, {}, {}):
    try: print(len(tools.slow(**arguments)))
    except ToolError as error: print(error.kind, error)
";
    for place in PLACES {
        let report = run(&home, place, slow.clone(), granted(Request::python(text), &["slow"]));
        let expected = "budget the call took longer than 0.05 s\nbudget the inputs and outputs have more than 1000 bytes\n0\nbudget the program has made all of its 3 calls\n";
        assert_eq!(report.stdout.to_text_lossy(), expected);
    }
}

#[test]
fn limits_and_cancellations_end_a_call() {
    let home = Home::new();
    let ended = Arc::new(AtomicU64::new(0));
    struct Ends(Arc<AtomicU64>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for place in PLACES {
        let counter = Arc::clone(&ended);
        let endless = Tool::new("endless", "", json!({}), move |_| {
            let ends = Ends(Arc::clone(&counter));
            async move {
                let _ends = ends;
                std::future::pending().await
            }
        });
        let toolbox = Toolbox::new([endless.expect("a tool")]).expect("one tool");
        let runner = home.runner_with(place, |builder| builder.tools(toolbox));
        let wall = Some(Limit::At(Duration::from_millis(300)));
        let request = Request {
            limits: LimitOverrides { wall, ..LimitOverrides::default() },
            ..granted(Request::python("from codebox import tools; tools.endless()"), &["endless"])
        };
        let report = home.wait(runner.run_async(request)).expect("a report");
        assert_eq!(report.outcome, Outcome::LimitHit(codebox::LimitKind::Wall), "{place:?}");
        // The call has been made, although it has not ended.
        let calls: Vec<_> =
            report.tool_calls.iter().map(|call| (call.name.as_str(), call.failure.as_deref())).collect();
        assert_eq!(calls, [("endless", Some("interrupted"))], "{place:?}");
        // The future of the tool is dropped.
        for _ in 0..500 {
            if ended.load(Ordering::SeqCst) > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(ended.swap(0, Ordering::SeqCst), 1, "{place:?}");
    }
}

#[test]
fn cells_of_sessions_call_tools() {
    let home = Home::new();
    for place in PLACES {
        let runner = home.runner_with(place, |builder| builder.tools(toolbox()));
        let session = home.wait(runner.session(all(Request::python("")))).expect("a session");
        let session = TestSession { home: &home, session };
        session.ok("from codebox import tools\nsearch = tools.search");
        assert_eq!(session.value("tools.search(query='a')['found'][0]"), "'a'");
        assert_eq!(session.value("(await tools.search(query='b'))['found'][0], search('c')['found'][0]"), "('b', 'c')");
        let report = session.exec("tools.search(query='missing')");
        assert_eq!(report.error.as_ref().map(|error| error.name.as_str()), Some("ToolError"), "{:?}", report.error);
        assert_eq!((report.tool_calls.len(), report.is_kept()), (1, true));
        // Functions of tools are part of the state.
        home.wait(session.session.checkpoint("a")).expect("a checkpoint");
        let forks = home.wait(session.session.fork(2)).expect("forks");
        for fork in forks {
            assert_eq!(TestSession { home: &home, session: fork }.value("search('d')['found'][0]"), "'d'");
        }
    }
}

#[test]
fn programs_that_call_tools_run_in_webassembly_once() {
    let home = Home::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let count = Tool::blocking("count", "", json!({}), move |_| Ok(json!(counter.fetch_add(1, Ordering::SeqCst))));
    let toolbox = Toolbox::new([count.expect("a tool")]).expect("one tool");
    let runner = home.runner_with(Place::ThisProcess, |builder| builder.tools(toolbox));
    let text = "from codebox import tools; tools.count()\nimport threading; threading.Thread(target=print).start()";
    let request = granted(Request::new(Program::Inline(text.to_owned())), &["count"]);
    let report = home.wait(runner.run_async(request)).expect("a report");
    assert!(!report.is_success());
    assert_eq!((report.tool_calls.len(), calls.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(report.provenance.isolation, codebox::Isolation::Wasm);
}
