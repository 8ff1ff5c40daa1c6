//! Host tools of configuration files, on the command line.

use std::fs;
use std::path::Path;

use codebox_testkit::{Codebox, Input, ProcessResult, check_engine, is_required};
use serde_json::Value;

use crate::session_home::SessionHome;
use crate::support::kit;

const PROJECT: &str = r#"
[tools.double]
description = "Doubles a number."
run = "tools/double.py"
input = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] }
output = { type = "integer" }
[tools.shout]
run = "tools/shout.mjs"
[tools.ask]
run = "tools/double.py"
approval = "ask"
[tools.fail]
run = "tools/fail.py"
[tools.text]
run = "tools/text.py"
[tools.slow]
run = "tools/slow.py"
timeout = "200ms"
"#;

/// A project with tools, and a home.
struct Project {
    home: SessionHome,
    dir: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let dir = kit().folder().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("it is ours");
        };
        write("codebox.toml", PROJECT);
        write("tools/double.py", "import json, sys\nprint(json.load(sys.stdin)['n'] * 2)");
        let shout = "import { readFileSync } from 'node:fs';\nconst { text } = JSON.parse(readFileSync(0, 'utf8'));\n\
            console.log(JSON.stringify({ text: text.toUpperCase() }));";
        write("tools/shout.mjs", shout);
        write("tools/fail.py", "import sys\nprint('secret of stdout')\nsys.exit('no luck')");
        write("tools/text.py", "print('no JSON')");
        write("tools/slow.py", "while True: pass");
        Self { home: SessionHome::new(), dir }
    }

    fn codebox(&self, words: &[&str]) -> Codebox {
        let words = words.iter().map(|word| (*word).to_owned());
        kit().codebox().home(&self.home.home()).folder(self.dir.path()).args(words)
    }

    fn run(&self, words: &[&str]) -> ProcessResult {
        self.codebox(words).run().expect("it runs")
    }

    /// Returns the output of a successful command.
    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{}", ran.stdout_text());
        ran.stdout_text()
    }

    fn config(&self) -> std::path::PathBuf {
        let dir = self.home.home().join("config");
        fs::create_dir_all(&dir).expect("a directory");
        dir.join("config.toml")
    }
}

#[test]
fn programs_call_tools_of_a_project() {
    let project = Project::new();
    let text = "
from codebox import tools, ToolError
print(list(tools), tools.double(n=21), tools.shout(text='a'))
for call in (lambda: tools.double(n='x'), lambda: tools.fail(), lambda: tools.text(), lambda: tools.slow(), lambda: tools.ask(n=1)):
    try: print(call())
    except ToolError as error: print(error.kind, '|', error)
";
    let granted: Vec<&str> =
        ["double", "shout", "fail", "text", "slow", "ask"].iter().flat_map(|name| ["--tool", *name]).collect();
    let out = project.ok(&[&["run"], &granted[..], &["-c", text]].concat());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "['ask', 'double', 'fail', 'shout', 'slow', 'text'] 42 {'text': 'A'}");
    assert!(lines[1].starts_with("invalid_input | "), "{out}");
    assert_eq!(lines[2], "failed | the program of fail failed (exit status: 1): no luck");
    assert!(lines[3].starts_with("invalid_output | the output of text is not JSON: "), "{out}");
    assert_eq!(lines[4], "budget | the program of slow took longer than its time limit");
    assert_eq!(lines[5], "denied | the call of the tool ask was not approved");
    // A tool that is not named is not granted.
    let out = project.ok(&["run", "--tool", "double", "-c", "from codebox import tools; print(list(tools))"]);
    assert_eq!(out, "['double']\n");
    let report =
        project.ok(&["run", "--json", "--tool", "double", "-c", "from codebox import tools; tools.double(n=4)"]);
    let report: Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(
        (&report["results"][0]["data"]["text/plain"], &report["tool_calls"][0]["name"]),
        (&"8".into(), &"double".into())
    );
    let explained = project.ok(&["explain", "--tool", "double", "-c", "import threading"]);
    assert!(explained.contains("would run in "), "{explained}");
    assert_eq!(project.run(&["explain", "--tool", "other", "-c", "1"]).code, Some(125));
}

#[test]
fn cells_and_blocks_call_tools_of_the_client() {
    let project = Project::new();
    let id = project.ok(&["session", "new"]);
    let id = id.trim();
    let exec = |options: &[&str], text: &str| project.run(&[&["session", "exec", id], options, &["-c", text]].concat());
    let ran = exec(&["--tool", "double"], "from codebox import tools\nx = tools.double(n=4); x");
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "8\n"), "{}", ran.stderr_text());
    // The tools are those of the command, and not of the session.
    let ran = exec(&[], "tools.double(n=1)");
    assert!(ran.stderr_text().contains("no host tool 'double' is granted"), "{}", ran.stderr_text());
    let ran = exec(&["--tool", "double", "--json"], "[tools.double(n=i) for i in range(3)]");
    let report: Value = serde_json::from_str(&ran.stdout_text()).expect("a report");
    assert_eq!(report["results"][0]["data"]["text/plain"], "[0, 2, 4]");
    assert_eq!(report["tool_calls"].as_array().map(Vec::len), Some(3));
    // A call that outlives its cell leaves the connection and the session usable.
    let ran = exec(&["--tool", "slow", "--timeout", "50ms"], "tools.slow()");
    assert_eq!(ran.code, Some(124), "{}", ran.stderr_text());
    assert_eq!(exec(&[], "1 + 1").stdout_text(), "2\n");
    let fork = project.ok(&["session", "fork", id]);
    let ran = project.run(&[
        "session",
        "exec",
        fork.trim(),
        "--tool",
        "double",
        "-c",
        "from codebox import tools; tools.double(n=5)",
    ]);
    assert_eq!(ran.stdout_text(), "10\n", "{}", ran.stderr_text());
    fs::write(
        project.dir.path().join("text.md"),
        "```py\nfrom codebox import tools\nprint(tools.double(n=1))\n```\n```js\nimport { tools } from 'codebox';\nconsole.log(await tools.shout({ text: 'b' }))\n```\n",
    )
    .expect("it is ours");
    let blocks = ["blocks", "--tool", "double", "--tool", "shout", "text.md"];
    assert_eq!(project.ok(&blocks), "2\n{ text: 'B' }\n");
    let typed = project
        .codebox(&["repl", "--tool", "double"])
        .input(Input::Bytes(b"from codebox import tools; tools.double(n=7)".to_vec()));
    let typed = typed.run().expect("it runs");
    assert_eq!(typed.stdout_text(), "14\n", "{}", typed.stderr_text());
    // The record of a cell has its calls, and the record of a tool's job has the name of the tool.
    let records = project.ok(&["audit", "list", "--json", "--last", "200"]);
    let records: Value = serde_json::from_str(&records).expect("a document");
    let events: Vec<&Value> =
        records["records"].as_array().expect("records").iter().map(|record| &record["event"]).collect();
    let calls = |event: &&Value| event["report"]["tool_calls"].as_array().is_some_and(|calls| calls.len() == 3);
    let ended = events.iter().copied().find(calls).expect("the end of the cell");
    assert_eq!(ended["report"]["tool_calls"][0]["name"], "double");
    let cell = events.iter().find(|event| event["type"] == "started" && event["id"] == ended["id"]);
    assert_eq!(cell.expect("its start")["session"], id);
    assert!(events.iter().any(|event| event["type"] == "started" && event["tool"] == "double"));
}

#[test]
fn commands_are_those_of_the_user() {
    let project = Project::new();
    let mark = project.dir.path().join("mark");
    let config = format!("[tools.host]\ncommand = ['sh', '-c', 'cat; touch {}']\n", mark.display());
    fs::write(project.dir.path().join("codebox.toml"), &config).expect("it is ours");
    let program = ["run", "--tool", "host", "-c", "from codebox import tools; print(tools.host(a=[1, 'x']))"];
    let refused = project.run(&program);
    assert_eq!(refused.code, Some(125));
    assert!(
        refused.stderr_text().contains("a project cannot run commands outside of the sandbox"),
        "{}",
        refused.stderr_text()
    );
    fs::remove_file(project.dir.path().join("codebox.toml")).expect("it is ours");
    fs::write(project.config(), &config).expect("it is ours");
    assert_eq!(project.ok(&program), "{'a': [1, 'x']}\n");
    assert!(Path::new(&mark).exists());
    // Without the option, a program has no tools.
    let ran = project.run(&["run", "-c", "from codebox import tools; tools.host()"]);
    assert!(ran.stderr_text().contains("no host tool 'host' is granted"), "{}", ran.stderr_text());
    let unknown = project.run(&["run", "--tool", "other", "-c", "1"]);
    assert_eq!(unknown.code, Some(125));
    assert!(
        unknown.stderr_text().contains("there is no tool other in the configuration\n  fix: use one of host"),
        "{}",
        unknown.stderr_text()
    );
}

#[test]
fn programs_in_containers_call_tools() {
    for engine in ["podman", "docker"] {
        if let Err(reason) = check_engine(kit(), engine) {
            assert!(!is_required(engine), "{reason}");
            continue;
        }
        let project = Project::new();
        let home = project.dir.path().join("home");
        kit().home_with_engine(&home, engine, "").expect("a home");
        let run = |options: &[&str]| {
            let words = [&["run", "--isolation", "container", "--tool", "double", "--tool", "fail"], options].concat();
            let ran = project.codebox(&words).home(&home).run().expect("it runs");
            assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{engine} {}", ran.stdout_text());
            ran.stdout_text()
        };
        let text = "
import asyncio, threading
from codebox import tools, ToolError
print(list(tools), tools.double(n=21))
for call in (lambda: tools.double(n='x'), lambda: tools.fail(), lambda: tools.double(n=1, x='x' * 3_000_000)):
    try: print(call())
    except ToolError as error: print(error.kind)
async def main(): return await tools.double(n=50), await asyncio.gather(*(tools.double.coroutine(n=i) for i in range(3)))
print(asyncio.run(main()))
found = []
threads = [threading.Thread(target=lambda i=i: found.append(tools.double(n=i))) for i in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(found) == list(range(0, 24, 2)))
";
        let expected = "['double', 'fail'] 42\ninvalid_input\nfailed\ninvalid_input\n(100, [0, 2, 4])\nTrue\n";
        assert_eq!(run(&["-c", text]), expected, "{engine}");
        let text = "const { tools, ToolError } = require('codebox');
            Promise.all([1, 2].map((n) => tools.double({ n }))).then(async (all) => {
              console.log(Object.keys(tools), all);
              await tools.double({ n: 'x' }).catch((error) => console.log(error instanceof ToolError, error.kind));
            });";
        assert_eq!(
            run(&["--lang", "js", "-c", text]),
            "[ 'double', 'fail' ] [ 2, 4 ]\ntrue invalid_input\n",
            "{engine}"
        );
        fs::write(
            project.dir.path().join("a.mts"),
            "import { tools } from 'codebox';\nconst n: number = await tools.double({ n: 8 });\nconsole.log(n);",
        )
        .expect("it is ours");
        assert_eq!(run(&["a.mts"]), "16\n", "{engine}");
        // Programs that a command starts have the module too.
        let command = "python3 -c 'from codebox import tools; print(tools.double(n=3))'";
        let report = run(&["--json", "--", "sh", "-c", command]);
        let report: Value = serde_json::from_str(&report).expect("a report");
        assert_eq!(
            (&report["stdout"], &report["tool_calls"][0]["name"]),
            (&"6\n".into(), &"double".into()),
            "{engine}"
        );
        // A module of the program comes first, and a program without tools has none.
        let lib = project.dir.path().join("lib");
        fs::create_dir(&lib).expect("a directory");
        fs::write(lib.join("codebox.py"), "tools = 'mine'").expect("it is ours");
        fs::write(lib.join("main.py"), "import codebox; print(codebox.tools)").expect("it is ours");
        let grant = format!("{}:/work", lib.display());
        assert_eq!(run(&["--dir", &grant, "lib/main.py"]), "mine\n", "{engine}");
        let none = ["run", "--isolation", "container", "-c", "import codebox"];
        let ran = project.codebox(&none).home(&home).run().expect("it runs");
        assert!(ran.stderr_text().contains("ModuleNotFoundError"), "{engine} {}", ran.stderr_text());
    }
}

#[test]
fn cells_in_containers_call_tools() {
    for engine in ["podman", "docker"] {
        if let Err(reason) = check_engine(kit(), engine) {
            assert!(!is_required(engine), "{reason}");
            continue;
        }
        let project = Project::new();
        let home = project.dir.path().join("home");
        kit().home_with_engine(&home, engine, "").expect("a home");
        let run = |words: &[&str]| {
            let ran = project.codebox(&[&["session"], words].concat()).home(&home).run().expect("it runs");
            assert_eq!(
                (ran.code, ran.stderr_text().as_str()),
                (Some(0), ""),
                "{engine} {words:?} {}",
                ran.stdout_text()
            );
            ran.stdout_text()
        };
        let python = run(&["new", "--isolation", "container"]);
        let exec = |options: &[&str], code: &str| run(&[&["exec", python.trim()], options, &["-c", code]].concat());
        assert_eq!(exec(&["--tool", "double"], "from codebox import tools\ntools.double(n=4)"), "8\n");
        assert_eq!(exec(&["--tool", "fail"], "list(tools)"), "['fail']\n");
        assert_eq!(exec(&[], "list(tools)"), "[]\n");
        let child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'from codebox import tools; print(tools.double(n=1))']).returncode";
        assert_eq!(exec(&["--tool", "double"], child), "2\n0\n");
        // Calls that outlive their cells do not use up the places of the agent.
        let left = "
import threading
from codebox import ToolError
slow = tools.slow
def call():
    try: slow()
    except ToolError: pass
for _ in range(3): threading.Thread(target=call, daemon=True).start()";
        for _ in 0..4 {
            exec(&["--tool", "slow"], left);
        }
        assert_eq!(exec(&["--tool", "double"], "tools.double(n=5)"), "10\n");
        let script = run(&["new", "--isolation", "container", "--lang", "js"]);
        let exec = |options: &[&str], code: &str| run(&[&["exec", script.trim()], options, &["-c", code]].concat());
        let code = "import { tools } from 'codebox'; await tools.double({ n: 4 })";
        assert_eq!(exec(&["--tool", "double"], code), "8\n");
        assert_eq!(exec(&["--tool", "fail"], "Object.keys(tools)"), "[ 'fail' ]\n");
        run(&["stop", python.trim(), script.trim()]);
        run(&["end"]);
    }
}
