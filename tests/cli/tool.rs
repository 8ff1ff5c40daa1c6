//! `codebox tool`.

use std::fs;

use codebox_testkit::{Input, ProcessResult};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run};

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
    assert_one_line(&home.run(&["tool", "call", "double", "--input", "@/missing"], b""), 125, "/missing");
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
    fs::write(config.join("config.toml"), "[tools.late]\nrun = 'slow.py'\ntimeout = '4s'").expect("it is ours");
    let (status, result) = home.call("late", "{}");
    assert_eq!((status, &result["error"]["kind"]), (Some(124), &"budget".into()), "{result}");
    assert_eq!((&result["metadata"]["partial_output"], &result["error"]["stderr"]), (&"early".into(), &"why".into()));
}
