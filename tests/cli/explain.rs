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
