//! Analyzers that violate the protocol: this process neither waits forever nor accepts their output.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use codebox_analysis::{AnalysisError, Analyzer, Budget, StripRequest, split_answer};

/// Creates an analyzer whose program is a shell script.
fn analyzer(script: &str, timeout: Duration) -> (tempfile::TempDir, Analyzer) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("analyzer");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a mode");
    (dir, Analyzer::with_program(path, timeout))
}

fn error(script: &str) -> AnalysisError {
    let (_dir, analyzer) = analyzer(script, Duration::from_secs(20));
    analyzer.python_needs("import os", Budget::default()).expect_err("the answer is invalid")
}

/// Returns a shell command that prints a successful report with an answer of this length, in octal bytes.
fn head(length: &str) -> String {
    format!(r"printf '\000{}{length}'", r"\000".repeat(16))
}

#[test]
fn rejects_malformed_reports() {
    for (script, why) in [
        ("exit 0".to_owned(), "analyzer failed"),
        ("head -c 100000 /dev/zero | tr '\\0' '\\377'; sleep 100".to_owned(), "unknown outcome 255"),
        (format!("{}; sleep 100", head(r"\377\377\377\377")), "4294967295 bytes exceeds"),
        (format!("{}; sleep 100", head(r"\000\000\040\000")), "2097152 bytes exceeds"),
        (format!("{}; printf 'nul'", head(r"\004\000\000\000")), "without a response"),
        (format!("{}; printf 'null'; sleep 100", head(r"\004\000\000\000")), "malformed response"),
        (r"printf '\000\000\000'".to_owned(), "without a response"),
    ] {
        let error = error(&script);
        assert!(matches!(error, AnalysisError::Analyzer(_)), "{script}: {error}");
        assert!(error.to_string().contains(why) || error.to_string().contains("Broken pipe"), "{script}: {error}");
    }
}

#[test]
fn rejects_needs_with_control_characters() {
    let needs = r#"{"imports":[],"powers":[{"power":"threads","weight":"required","line":1,"words":"\u001b[2J"}],"syntax_error":null}"#;
    let length = format!(r"\{:03o}\000\000\000", needs.len());
    let script = format!("{}; cat <<'END'\n{needs}\nEND\nsleep 100", head(&length));
    assert!(error(&script).to_string().contains("malformed response"));
}

#[test]
fn times_out_on_silent_analyzer() {
    let timeout = Duration::from_millis(300);
    for script in ["sleep 100", "while :; do printf '\\000'; sleep 0.1; done", "cat >/dev/null; sleep 100"] {
        let (_dir, analyzer) = analyzer(script, timeout);
        // The request exceeds the capacity of a pipe, so that sending it blocks as well.
        let request = StripRequest { file: "a.ts".to_owned(), text: " ".repeat(500 << 10) };
        let fault =
            split_answer(&analyzer.strip(&request, Budget::default()).answer).expect_err("the answer is invalid");
        assert!(fault.message.contains("timed out after 300ms"), "{script}: {}", fault.message);
    }
}

#[test]
fn reports_start_failure() {
    for path in ["/nonexistent", "/"] {
        let analyzer = Analyzer::with_program(path.into(), Duration::from_secs(5));
        let error = analyzer.python_needs("import os", Budget::default()).expect_err("there is no such program");
        assert!(matches!(error, AnalysisError::Start(_)), "{error}");
    }
}

/// Checks that an analyzer that ends after each text, as if it were killed, is replaced.
#[test]
fn replaces_ended_process() {
    let script = format!("head -c 9 >/dev/null; {}; printf 'true'; exec >&-; sleep 0.2", head(r"\004\000\000\000"));
    let (_dir, analyzer) = analyzer(&script, Duration::from_secs(20));
    for text in ["x", "y", "z"] {
        assert_eq!(analyzer.is_python(text, Budget::default()), Ok(true));
        std::thread::sleep(Duration::from_millis(50));
    }
}
