//! `codebox explain`: the choice of tier and its reasons, without a run.

use std::fs;

use crate::support::{assert_one_line, folder, run_in};

/// Program that uses a thread and a process, which wasm lacks, and that would leave a file if it ran.
const UNSUPPORTED_PROGRAM: &str =
    "import subprocess, threading\nopen('ran', 'w')\nthreading.Thread(target=print).start()\nsubprocess.run(['ls'])\n";

#[test]
fn reports_each_need_with_its_line() {
    let dir = folder();
    fs::write(dir.path().join("a.py"), UNSUPPORTED_PROGRAM).expect("a file");
    let result = run_in(dir.path(), &["explain", "--isolation", "wasm", "--dir", ".:/work:rw", "a.py", "--json"]);
    let explanation = result.stdout_text();
    assert_eq!(result.code, Some(0), "{}", result.stderr_text());
    for line in [
        "a.py would run in wasm: wasm is the only isolation allowed",
        "line 3 needs threads: threading.Thread",
        "line 4 needs processes: subprocess.run",
        "tier wasm: chosen",
        "  lacks threads, processes, sockets, native modules",
    ] {
        assert!(explanation.lines().any(|explanation| explanation.starts_with(line)), "{line}: {explanation}");
    }
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn prints_json_document() {
    let code = "const { spawn } = require('child_process')\nspawn('ls')";
    let result = run_in(folder().path(), &["explain", "--json", "--isolation", "wasm", "--lang", "js", "-c", code]);
    let explanation: serde_json::Value = serde_json::from_slice(&result.stdout).expect("one document");
    assert_eq!(result.code, Some(0), "{explanation}");
    assert_eq!((&explanation["isolation"], &explanation["error"]), (&"wasm".into(), &serde_json::Value::Null));
    let need = serde_json::json!({
        "power": "processes", "weight": "required", "line": 2, "shown_by": "child_process.spawn"
    });
    assert_eq!((&explanation["needs"][0], &explanation["would_need"][0]), (&need, &need));
}

/// The levels of settings are listed from the call to the default, and the first preference that is allowed counts.
#[test]
fn lists_the_levels_of_settings() {
    let dir = folder();
    let tool = "isolation = 'wasm,container'\nprefer-isolation = 'wasm'\n[tools.double]\nrun = 'double.py'\nisolation = 'wasm'\n";
    fs::write(dir.path().join("codebox.toml"), tool).expect("a file");
    fs::write(dir.path().join("double.py"), "print(2)").expect("a file");
    fs::create_dir(dir.path().join(".devcontainer")).expect("a directory");
    fs::write(dir.path().join(".devcontainer/devcontainer.json"), "{}").expect("a file");
    let settings = |args: &[&str]| {
        let result = run_in(dir.path(), &[&["explain", "--json"], args].concat());
        let explanation: serde_json::Value = serde_json::from_slice(&result.stdout).expect("one document");
        let settings = explanation["settings"].as_array().expect("a list").clone();
        let text = |setting: &serde_json::Value, name: &str| setting[name].as_str().unwrap_or("-").to_owned();
        let line = |setting| ["level", "requires", "prefers"].map(|name| text(setting, name)).join(" ");
        settings.iter().map(line).collect::<Vec<_>>()
    };
    let rest = ["project wasm,container wasm", "dev-container - -", "default - wasm"];
    assert_eq!(settings(&["-c", "1"]), rest);
    let call = [&["call wasm -"], &rest[..]].concat();
    assert_eq!(settings(&["--isolation", "wasm", "-c", "1"]), call);
    assert_eq!(settings(&["--tool", "double"]), [&["tool wasm -"], &rest[..]].concat());
    let result = run_in(dir.path(), &["explain", "--tool", "double"]);
    let text = result.stdout_text();
    assert!(text.starts_with("the tool double would run in wasm: wasm is the only isolation allowed\n"), "{text}");
    assert!(text.contains("\nsetting tool: requires wasm (tools.double)\n"), "{text}");
    // A call of a tool is the first level.
    assert_eq!(settings(&["--tool", "double", "--prefer", "container"])[0], "call - container");
    let refused = run_in(dir.path(), &["explain", "--tool", "double", "--isolation", "container"]);
    assert_one_line(&refused, 125, "the call requires container, and the tool requires wasm");
    let call = ["tool", "call", "double", "--isolation", "container"];
    assert_one_line(&run_in(dir.path(), &call), 125, "the call requires container, and the tool requires wasm");
    assert_eq!(run_in(dir.path(), &["tool", "call", "double", "--isolation", "wasm"]).code, Some(0));
    let dev = run_in(dir.path(), &["explain", "--isolation", "devcontainer", "-c", "1"]).stdout_text();
    assert!(dev.contains("it would run in the dev container that "), "{dev}");
}

#[test]
fn rejects_what_run_rejects() {
    let dir = folder();
    for (args, expected) in [
        (["explain", "nope.py"].as_slice(), "nope.py"),
        (&["explain", "-c", "# codebox: tier=wasm\nprint(1)"], "line 1: unknown key \"tier\""),
    ] {
        assert_one_line(&run_in(dir.path(), args), 125, expected);
    }
    let json = run_in(dir.path(), &["explain", "--json", "nope.py"]);
    assert_eq!(json.code, Some(125));
    assert!(serde_json::from_slice::<serde_json::Value>(&json.stdout).is_ok(), "{}", json.stdout_text());
}

#[test]
fn clients_and_tests_run_in_webassembly() {
    let dir = folder();
    for (name, text) in [
        ("a.test.js", "const test = require('node:test'); test('a', () => {})"),
        ("b.js", "require('http').get('http://127.0.0.1:9/')"),
        ("c.mjs", "import https from 'node:https'; https.request('https://127.0.0.1:9/').end()"),
        ("d.js", "new WebSocket('ws://127.0.0.1:9')"),
    ] {
        fs::write(dir.path().join(name), text).expect("it is ours");
        let explained = run_in(dir.path(), &["explain", "--net", "127.0.0.1:9", name]).stdout_text();
        assert!(explained.contains(" would run in wasm"), "{explained}");
    }
}
