//! `codebox explain`: the choice of tier and its reasons, without a run.

use std::fs;

use crate::support::{assert_one_line, folder, run_in};

/// Program that uses a thread and a process, which wasm lacks, and that would leave a file if it ran.
const NEEDY: &str =
    "import subprocess, threading\nopen('ran', 'w')\nthreading.Thread(target=print).start()\nsubprocess.run(['ls'])\n";

#[test]
fn every_need_is_told_with_its_line() {
    let place = folder();
    fs::write(place.path().join("a.py"), NEEDY).expect("a file");
    let ran = run_in(place.path(), &["explain", "--isolation", "wasm", "--dir", ".:/work:rw", "a.py", "--json"]);
    let told = ran.stdout_text();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
    for line in [
        "a.py would run in wasm: wasm is the only isolation allowed",
        "line 3 needs threads: threading.Thread",
        "line 4 needs processes: subprocess.run",
        "tier wasm: chosen",
        "  lacks threads, processes, sockets, native modules",
    ] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line}: {told}");
    }
    assert!(!place.path().join("ran").exists());
}

#[test]
fn programs_get_a_document() {
    let code = "const { spawn } = require('child_process')\nspawn('ls')";
    let ran = run_in(folder().path(), &["explain", "--json", "--isolation", "wasm", "--lang", "js", "-c", code]);
    let told: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one document");
    assert_eq!(ran.code, Some(0), "{told}");
    assert_eq!((&told["isolation"], &told["error"]), (&"wasm".into(), &serde_json::Value::Null));
    let need = serde_json::json!({
        "power": "processes", "weight": "required", "line": 2, "shown_by": "child_process.spawn"
    });
    assert_eq!((&told["needs"][0], &told["would_need"][0]), (&need, &need));
}

#[test]
fn what_a_run_refuses_is_refused() {
    let place = folder();
    for (args, named) in [
        (["explain", "nope.py"].as_slice(), "nope.py"),
        (&["explain", "-c", "# codebox: tier=wasm\nprint(1)"], "line 1: unknown key \"tier\""),
    ] {
        assert_one_line(&run_in(place.path(), args), 125, named);
    }
    let json = run_in(place.path(), &["explain", "--json", "nope.py"]);
    assert_eq!(json.code, Some(125));
    assert!(serde_json::from_slice::<serde_json::Value>(&json.stdout).is_ok(), "{}", json.stdout_text());
}
