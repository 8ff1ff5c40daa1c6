//! `codebox tool`.

use std::fs;

use codebox_testkit::{Input, ProcessResult};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run, wait_until};

const CONFIG: &str = r#"
[tools.double]
description = "Doubles a number."
run = "double.py"
input = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] }
output = { type = "integer" }

[tools.echo]
description = "Returns its input."
command = ["cat"]
approval = "ask"

[tools.fails]
command = ["sh", "-c", "echo no >&2; exit 3"]

[tools.missing]
command = ["/missing/program"]

[tools.slow]
command = ["sleep", "20"]
timeout = "100ms"

[tools.denied]
command = ["cat"]
approval = "deny"
"#;

/// A home with these tools.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = folder();
        kit().share_runtimes(home.path()).expect("a home");
        let config = home.path().join("config");
        fs::create_dir_all(&config).expect("a directory");
        fs::write(config.join("config.toml"), CONFIG).expect("it is ours");
        fs::write(config.join("double.py"), "import json, sys\nprint(json.load(sys.stdin)['n'] * 2)")
            .expect("it is ours");
        Self(home)
    }

    fn run(&self, args: &[&str], input: &[u8]) -> ProcessResult {
        run(kit().codebox().home(self.0.path()).args(args.iter().copied()).input(Input::Bytes(input.to_vec())))
    }

    /// Calls a tool, and returns the exit status and the document.
    #[track_caller]
    fn call(&self, name: &str, input: &str) -> (Option<i32>, Value) {
        let ran = self.run(&["tool", "call", name, "--input", input], b"");
        let document = serde_json::from_str(&ran.stdout_text());
        (ran.code, document.unwrap_or_else(|_| panic!("{} {}", ran.stdout_text(), ran.stderr_text())))
    }
}

#[test]
fn tools_are_called_with_json() {
    let home = Home::new();
    let (status, result) = home.call("double", r#"{"n": 21}"#);
    assert_eq!((status, &result["success"], &result["output"]), (Some(0), &true.into(), &42.into()));
    assert_eq!((&result["error"], &result["metadata"]["tool"]), (&Value::Null, &"double".into()));
    assert_eq!(result["metadata"]["input_bytes"], 9);
    // The explicit call is the approval.
    let (status, result) = home.call("echo", r#"{"a":[1,"x\ny"]}"#);
    assert_eq!((status, &result["output"]), (Some(0), &json!({ "a": [1, "x\ny"] })));
    let file = home.0.path().join("in.json");
    fs::write(&file, r#"{"n": 4}"#).expect("it is ours");
    let (_, result) = home.call("double", &format!("@{}", file.display()));
    assert_eq!(result["output"], 8);
    let ran = home.run(&["tool", "call", "double", "--input", "@-"], br#"{"n": 5}"#);
    assert!(ran.stdout_text().contains(r#""output":10"#), "{}", ran.stdout_text());
}

#[test]
fn failures_have_a_kind_and_a_status() {
    let home = Home::new();
    for (name, input, status, kind) in [
        ("double", r#"{"n": "x"}"#, 125, "invalid_input"),
        ("double", "{", 125, "invalid_input"),
        ("fails", "{}", 1, "failed"),
        ("missing", "{}", 125, "unavailable"),
        ("slow", "{}", 124, "budget"),
        ("denied", "{}", 125, "denied"),
    ] {
        let (code, result) = home.call(name, input);
        assert_eq!((code, result["error"]["kind"].as_str()), (Some(status), Some(kind)), "{name}: {result}");
        assert_eq!((&result["success"], &result["output"]), (&false.into(), &Value::Null));
    }
    let (_, result) = home.call("fails", "{}");
    assert_eq!(
        (&result["error"]["stderr"], &result["error"]["message"]),
        (&"no".into(), &"sh failed (exit status: 3): no".into())
    );
    assert_one_line(&home.run(&["tool", "call", "other"], b""), 125, "there is no tool other");
    assert_one_line(&home.run(&["explain", "--tool", "denied"], b""), 126, "the tool denied is denied");
    assert_one_line(&home.run(&["tool", "call", "double", "--input", "@/missing"], b""), 125, "/missing");
}

/// Every call has a record before its tool runs and one of its end, also if it is refused, and the job of the tool names it.
#[test]
fn calls_are_recorded() {
    let home = Home::new();
    let input = r#"{"n": 21}"#;
    let (_, result) = home.call("double", input);
    home.call("double", r#"{"n": "no"}"#);
    home.call("fails", "{}");
    home.call("denied", "{}");
    home.run(&["tool", "call", "other"], b"");
    let records = home.run(&["audit", "list", "--json", "--last", "100"], b"").stdout_text();
    let records: Value = serde_json::from_str(&records).expect("a document");
    let events: Vec<&Value> =
        records["records"].as_array().expect("records").iter().rev().map(|record| &record["event"]).collect();
    let of = |kind: &str| events.iter().copied().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let (called, returned, started) = (of("called"), of("returned"), of("started"));
    let names: Vec<_> = called.iter().map(|event| event["tool"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["double", "double", "fails", "denied", "other"]);
    assert_eq!((&called[0]["bytes"], called[0]["sha256"].as_str().map(str::len)), (&input.len().into(), Some(64)));
    let kinds: Vec<_> = returned.iter().map(|event| event["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["ok", "invalid_input", "failed", "denied", "invalid_request"]);
    assert!(called.iter().zip(&returned).all(|(called, returned)| called["id"] == returned["id"]));
    let [job] = started.as_slice() else { panic!("{started:?}") };
    assert_eq!((&job["tool"], &job["id"]), (&"double".into(), &returned[0]["job"]));
    assert_eq!(job["id"], result["metadata"]["job"]);
    let list = home.run(&["audit", "list"], b"").stdout_text();
    assert!(list.contains("tool denied") && list.contains("for tool double"), "{list}");
    let call = called[0]["id"].as_str().expect("an id");
    assert_eq!(home.run(&["audit", "show", call], b"").stdout_text().matches(call).count(), 2);
    assert_eq!(home.run(&["audit", "verify"], b"").code, Some(0));
}

/// A call that must be recorded, and cannot be, is not made.
#[test]
fn calls_that_cannot_be_recorded_are_reported_or_refused() {
    let home = Home::new();
    let (log, made) = (home.0.path().join("data/jobs/audit/log.jsonl"), home.0.path().join("made"));
    fs::create_dir_all(&log).expect("a directory");
    let config = home.0.path().join("config/config.toml");
    let tool = format!("[tools.touch]\ncommand = ['sh', '-c', 'touch {}; echo 1']\n", made.display());
    fs::write(&config, format!("require-audit = true\n{tool}")).expect("it is ours");
    let refused = home.run(&["tool", "call", "touch"], b"");
    assert_one_line(&refused, 125, "cannot write the audit log");
    assert!(!made.exists() && refused.stdout_text().is_empty(), "{}", refused.stdout_text());
    fs::write(&config, tool).expect("it is ours");
    let (status, result) = home.call("touch", "{}");
    assert!(status == Some(0) && made.exists(), "{result}");
    assert!(result["metadata"]["unaudited"].is_string(), "{result}");
}

/// A call whose process is killed has an end as well.
#[test]
fn killed_calls_are_interrupted() {
    let home = Home::new();
    let mark = home.0.path().join("started");
    let tool = format!("[tools.wait]\ncommand = ['sh', '-c', 'touch {}; exec sleep 30']\n", mark.display());
    fs::write(home.0.path().join("config/config.toml"), tool).expect("it is ours");
    let mut command = kit().codebox().home(home.0.path()).args(["tool", "call", "wait"]).command();
    let mut child = command.stdin(std::process::Stdio::null()).spawn().expect("it starts");
    while !mark.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    let records = home.run(&["audit", "list", "--json"], b"").stdout_text();
    let records: Value = serde_json::from_str(&records).expect("a document");
    let events: Vec<&Value> =
        records["records"].as_array().expect("records").iter().rev().map(|record| &record["event"]).collect();
    assert_eq!(events.iter().map(|event| &event["type"]).collect::<Vec<_>>(), ["called", "interrupted"]);
    assert_eq!(events[0]["id"], events[1]["id"]);
    // The list of what has not ended is removed.
    let left = fs::read_dir(home.0.path().join("data/jobs")).expect("a directory").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "open")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Failures of tools do not contain the values of their variables, or tokens.
#[test]
fn secrets_are_masked_in_failures() {
    let home = Home::new();
    let config = home.0.path().join("config");
    let tools = "[tools.a]\nrun = 'a.py'\nenv = ['PASS=tool-secret-1']\n[tools.b]\ncommand = ['sh', '-c', 'echo ghp_0123456789abcdefghij0123456789abcdef >&2; exit 1']\n";
    fs::write(config.join("config.toml"), tools).expect("it is ours");
    fs::write(config.join("a.py"), "import os, sys\nsys.exit('wrong: ' + os.environ['PASS'])").expect("it is ours");
    for (name, expected) in [("a", "wrong: ***"), ("b", "***")] {
        let (_, result) = home.call(name, "{}");
        assert_eq!(result["error"]["stderr"], expected, "{result}");
        assert!(result["error"]["message"].as_str().is_some_and(|message| message.ends_with(expected)), "{result}");
        assert!(!result.to_string().contains("tool-secret-1") && !result.to_string().contains("ghp_"), "{result}");
    }
}

#[test]
fn tools_are_listed_and_shown() {
    let home = Home::new();
    let listed = home.run(&["tool", "list"], b"").stdout_text();
    assert!(listed.contains("double   Doubles a number.") && !listed.contains("denied"), "{listed}");
    let json: Value = serde_json::from_str(&home.run(&["tool", "list", "--json"], b"").stdout_text()).expect("JSON");
    assert_eq!(json["tools"].as_array().map(Vec::len), Some(5));
    let shown = home.run(&["tool", "show", "double"], b"").stdout_text();
    assert!(shown.contains("Doubles a number.") && shown.contains("\"required\""), "{shown}");
    let json: Value =
        serde_json::from_str(&home.run(&["tool", "show", "double", "--json"], b"").stdout_text()).expect("JSON");
    assert_eq!((&json["name"], &json["output"]), (&"double".into(), &json!({ "type": "integer" })));
    assert_one_line(&home.run(&["tool", "show", "denied"], b""), 125, "denied by the configuration");
}

/// Paths of this machine in the input are those of the tool's directories, and back in the output.
#[test]
fn paths_are_mapped() {
    let home = Home::new();
    let data = folder();
    let data = data.path().canonicalize().expect("it exists");
    fs::write(data.join("in.txt"), "content").expect("it is ours");
    let config = home.0.path().join("config");
    let program = "\
import json, sys
given = json.load(sys.stdin)
text = open(given['file']).read()
open(given['file'] + '.out', 'w').write(text.upper())
print(json.dumps({'file': given['file'] + '.out', 'given': given, 'inside': '/tmp/x'}))
";
    fs::write(config.join("upper.py"), program).expect("it is ours");
    let tool = format!(
        r#"
[tools.upper]
run = "upper.py"
dirs = ["{0}:/data:rw"]
input = {{ type = "object", properties = {{ file = {{ type = "string", "x-codebox-path" = true }}, pattern = {{ "x-codebox-path" = false }} }} }}
output = {{ type = "object", properties = {{ file = {{ type = "string", "x-codebox-path" = true }} }} }}

[tools.leaks]
run = "leaks.py"
dirs = ["{0}:/data:rw"]
output = {{ properties = {{ file = {{ "x-codebox-path" = true }} }} }}
"#,
        data.display()
    );
    fs::write(config.join("leaks.py"), "print('{\"file\": \"/etc/passwd\"}')").expect("it is ours");
    fs::write(config.join("config.toml"), CONFIG.to_owned() + &tool).expect("it is ours");
    let file = data.join("in.txt").display().to_string();
    let input = json!({
        "file": file, "pattern": file, "deep": [{ "at": data.display().to_string() }], "url": format!("https://x{file}"),
        "prose": format!("see {file}"), "other": "/etc/passwd",
    });
    let (status, result) = home.call("upper", &input.to_string());
    assert_eq!(status, Some(0), "{result}");
    let output = &result["output"];
    assert_eq!(output["file"], format!("{file}.out"));
    // The output shows what the tool got, mapped back.
    assert_eq!(output["given"]["deep"], input["deep"]);
    assert_eq!(output["given"]["url"], input["url"]);
    assert_eq!(output["given"]["prose"], input["prose"]);
    assert_eq!([&output["given"]["other"], &output["inside"]], ["/etc/passwd", "/tmp/x"]);
    assert_eq!(fs::read_to_string(data.join("in.txt.out")).expect("it was written"), "CONTENT");
    assert_eq!((&result["metadata"]["method"], &result["metadata"]["exit_code"]), (&"wasm".into(), &0.into()));
    let (status, result) = home.call("upper", r#"{"file": "/etc/passwd"}"#);
    assert_eq!((status, &result["error"]["kind"]), (Some(125), &"invalid_input".into()));
    let message = result["error"]["message"].as_str().expect("a message");
    assert_eq!(message, "/file: the path \"/etc/passwd\" is in no granted directory");
    // The grant and the input can name the directory through a link.
    #[cfg(unix)]
    {
        let link = home.0.path().join("link");
        std::os::unix::fs::symlink(&data, &link).expect("it is ours");
        let linked = tool.replace(&data.display().to_string(), &link.display().to_string());
        fs::write(config.join("config.toml"), CONFIG.to_owned() + &linked).expect("it is ours");
        let named = link.join("in.txt").display().to_string();
        for input in [&named, &file] {
            // Links below the working directory are refused.
            let call = kit().codebox().home(home.0.path()).folder(&data).args(["tool", "call", "upper", "--input"]);
            let called = run(call.arg(json!({ "file": input }).to_string()));
            let result: Value = serde_json::from_str(&called.stdout_text()).expect("a document");
            assert_eq!(result["output"]["file"], format!("{file}.out"), "{result}");
        }
        fs::write(config.join("config.toml"), CONFIG.to_owned() + &tool).expect("it is ours");
    }
    let (status, result) = home.call("leaks", "{}");
    assert_eq!((status, &result["error"]["kind"]), (Some(1), &"invalid_output".into()), "{result}");
}

/// A tool that takes too long keeps its output up to then.
#[test]
fn partial_output_is_kept() {
    let home = Home::new();
    let config = home.0.path().join("config");
    fs::write(
        config.join("slow.py"),
        "import sys, time\nprint('early', flush=True)\nprint('why', file=sys.stderr, flush=True)\ntime.sleep(60)",
    )
    .expect("it is ours");
    fs::write(config.join("config.toml"), "[tools.late]\nrun = 'slow.py'\ntimeout = '1s'").expect("it is ours");
    let (status, result) = home.call("late", "{}");
    assert_eq!((status, &result["error"]["kind"]), (Some(124), &"budget".into()), "{result}");
    assert_eq!((&result["metadata"]["partial_output"], &result["error"]["stderr"]), (&"early".into(), &"why".into()));
}

/// A command that a time limit or a signal ends keeps its output and has an exit status.
#[test]
fn ended_commands_keep_their_output() {
    let home = Home::new();
    let config = home.0.path().join("config");
    let text = "[tools.late]\ncommand = ['sh', '-c', 'echo early; echo why >&2; sleep 600']\ntimeout = '500ms'\n\
                [tools.killed]\ncommand = ['sh', '-c', 'echo early; kill -9 $$']\n\
                [tools.text]\ncommand = ['sh', '-c', 'echo text; echo why >&2']";
    fs::write(config.join("config.toml"), text).expect("it is ours");
    for (name, status, kind, exit_code, output, stderr) in [
        ("late", 124, "budget", 124, "early", "why"),
        ("killed", 1, "failed", 137, "early", ""),
        ("text", 1, "invalid_output", 0, "text", "why"),
    ] {
        let (code, result) = home.call(name, "{}");
        let (error, metadata) = (&result["error"], &result["metadata"]);
        assert_eq!((code, &error["kind"], &metadata["exit_code"]), (Some(status), &kind.into(), &exit_code.into()));
        assert_eq!((&metadata["partial_output"], &error["stderr"]), (&output.into(), &stderr.into()), "{result}");
    }
}

/// A signal during a call ends the tool, and the call has its document and its record.
#[cfg(unix)]
#[test]
fn interrupted_calls_have_a_document() {
    use rustix::process::{Pid, Signal, kill_process};

    let home = Home::new();
    let (config, data) = (home.0.path().join("config"), folder());
    fs::write(
        config.join("slow.py"),
        "import time\nprint('early', flush=True)\nopen('/data/started', 'w').close()\ntime.sleep(600)",
    )
    .expect("it is ours");
    let (started, dir) = (data.path().join("started"), data.path().display());
    let text = format!(
        "[tools.program]\nrun = 'slow.py'\ndirs = ['{dir}:/data:rw']\n\
         [tools.command]\ncommand = ['sh', '-c', 'echo early; touch {dir}/started; sleep 600']"
    );
    fs::write(config.join("config.toml"), text).expect("it is ours");
    for name in ["program", "command"] {
        let mut command = kit().codebox().home(home.0.path()).args(["tool", "call", name]).command();
        let child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        wait_until("the tool does not start", || started.exists());
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        fs::remove_file(&started).expect("it is ours");
        let result: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!((output.status.code(), &result["error"]["kind"]), (Some(130), &"interrupted".into()), "{result}");
        let metadata = &result["metadata"];
        assert_eq!((&metadata["exit_code"], &metadata["partial_output"]), (&130.into(), &"early".into()), "{result}");
    }
    let records = home.run(&["audit", "list", "--json", "--last", "100"], b"").stdout_text();
    assert!(
        records.contains(r#""kind":"cancelled","exit_code":130"#) && !records.contains(r#""type":"interrupted""#),
        "{records}"
    );
}

/// An output above the limit on output is no output: the part that is left could be read as another one.
#[test]
fn outputs_above_the_limit_fail() {
    let home = Home::new();
    let config = home.0.path().join("config");
    fs::write(config.join("long.py"), "import json\nprint(json.dumps(list(range(200000))))").expect("it is ours");
    fs::write(config.join("config.toml"), "[limits]\noutput = '1M'\n[tools.long]\nrun = 'long.py'")
        .expect("it is ours");
    let (status, result) = home.call("long", "{}");
    assert_eq!((status, &result["error"]["kind"]), (Some(1), &"invalid_output".into()), "{result:.500}");
    let message = result["error"]["message"].as_str().expect("a message");
    assert_eq!(message, "the output of long has more than 1048576 bytes, the limit on its output");
}

/// A tool that names no time has that of jobs.
#[test]
fn the_time_of_jobs_applies_to_tools() {
    let home = Home::new();
    let config = home.0.path().join("config");
    fs::write(config.join("slow.py"), "import time\nprint('early', flush=True)\ntime.sleep(600)").expect("it is ours");
    fs::write(config.join("config.toml"), "[limits]\ntimeout = '2s'\n[tools.late]\nrun = 'slow.py'")
        .expect("it is ours");
    let (status, result) = home.call("late", "{}");
    assert_eq!((status, &result["error"]["kind"]), (Some(124), &"budget".into()), "{result}");
    assert_eq!(result["metadata"]["partial_output"], "early");
    let records = home.run(&["audit", "list", "--json"], b"").stdout_text();
    assert!(records.contains(r#""wall_ms":2000,"#), "{records}");
}
