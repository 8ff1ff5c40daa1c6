//! Destination of output, and codebox's own additions to it.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use codebox_testkit::Input;
use insta::assert_snapshot;

use crate::support::{folder, kit, run, run_and_format, run_in};

#[test]
fn adds_nothing_to_successful_output() {
    assert_snapshot!(run_and_format(folder().path(), &["run", "-c", "print(6*7)"]), @r"
    status 0
    --- stdout
    42
    ");
}

#[test]
fn reports_missing_feature_in_one_line() {
    let args = ["run", "-c", "import threading; threading.Thread(target=print).start()"];
    assert_snapshot!("missing", run_and_format(folder().path(), &args));
    let quiet =
        run_in(folder().path(), &["-q", "run", "-c", "import socket\ntry: socket.socket()\nexcept OSError: pass"]);
    assert_eq!((quiet.code, quiet.stderr_text().as_str()), (Some(0), ""));
}

#[test]
fn reports_limit_in_one_line() {
    assert_snapshot!(
        "limit",
        run_and_format(folder().path(), &["run", "--timeout", "200ms", "-c", "while True: pass"])
    );
}

#[test]
fn names_lowest_memory_limit() {
    let run_with = |memory: &str| run(kit().codebox().args(["run", "--memory", memory, "-c", "print(1)"]));
    let refused = run_with("30M");
    let text = refused.stderr_text();
    assert!(refused.code == Some(125) && text.contains("the memory limit is too low"), "{text}");
    let lowest = text.split("raise the memory limit to ").nth(1).and_then(|rest| rest.split(" or more").next());
    let accepted = run_with(lowest.expect("the fix names a limit"));
    assert_eq!((accepted.code, accepted.stdout_text().as_str()), (Some(0), "1\n"), "{}", accepted.stderr_text());
}

#[test]
fn honours_quiet_and_verbose() {
    let verbose = run_in(folder().path(), &["run", "-v", "-c", "print(1)"]);
    assert_eq!(verbose.stdout_text(), "1\n");
    assert!(verbose.stderr_text().lines().count() >= 2, "{}", verbose.stderr_text());
    let quiet = run_in(folder().path(), &["-q", "run", "--timeout", "100ms", "-c", "while True: pass"]);
    assert_eq!((quiet.code, quiet.stderr_text().as_str()), (Some(124), ""));
}

#[test]
fn omits_colours_without_terminal() {
    for args in [&["run", "--timeout", "100ms", "-c", "while True: pass"][..], &["run", "nope.py"], &["doctor"]] {
        let result = run_in(folder().path(), args);
        assert!(!result.stdout.contains(&0x1b) && !result.stderr.contains(&0x1b), "{args:?}");
    }
}

#[test]
fn streams_output_as_it_arrives() {
    let program = "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('second')";
    let mut command = kit().codebox().args(["run", "-c", program]).command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("process starts");
    let start = Instant::now();
    let mut first = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("the first line");
    let waited = start.elapsed();
    assert_eq!(&first, b"first\n");
    assert!(waited < Duration::from_millis(2500), "{waited:?}");
    assert!(child.wait().expect("process ends").success());
}

/// Returns the ids of the last jobs whose standard output was closed by its reader.
fn jobs_without_reader() -> Vec<String> {
    let result = run_in(folder().path(), &["jobs", "--json", "--last", "1000"]);
    let jobs: Vec<serde_json::Value> = serde_json::from_slice(&result.stdout).expect("a list of jobs");
    let closed = jobs.iter().filter(|job| job["exit_code"] == 141);
    closed.map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn ends_run_when_reader_disconnects() {
    let earlier = jobs_without_reader();
    let mut command = kit().codebox().args(["run", "-c", "while True: print('x' * 1000)"]).command();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("process starts");
    let mut some = [0; 100];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut some).expect("output");
    drop(child.stdout.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("status is available") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().expect("process can be killed");
            panic!("process continues without a reader");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(141));
    let recorded = jobs_without_reader();
    assert!(recorded.iter().any(|id| !earlier.contains(id)), "{recorded:?}");
}

#[test]
fn passes_guest_status_through() {
    for status in [0, 1, 3, 42, 125, 255] {
        let result = run_in(folder().path(), &["run", "-c", &format!("raise SystemExit({status})")]);
        assert_eq!((result.code, result.stderr_text().as_str()), (Some(status), ""));
    }
}

/// A pipe is a program as well, as for `python <(…)`.
#[test]
fn runs_program_from_pipe() {
    for (command, expected) in [("run", "42\n"), ("explain", "wasm")] {
        let script = format!("exec \"$0\" {command} --lang python <(echo 'print(6 * 7)')");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &script]).arg(kit().binary()).env_clear().env("CODEBOX_HOME", kit().home());
        let output = shell.output().expect("bash starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{command}");
    }
}

#[test]
fn runs_program_from_stdin() {
    let result = run(kit()
        .codebox()
        .args(["run", "--lang", "python", "-", "a"])
        .input(Input::Bytes(b"import sys\nprint(sys.argv)".to_vec())));
    assert_eq!(result.stdout_text(), "['-', 'a']\n");
}

#[test]
fn reports_output_files() {
    let dir = folder();
    let result = run_in(dir.path(), &["run", "--out", "out", "-c", "open('a.txt', 'w').write('hello')"]);
    assert_eq!(result.code, Some(0), "{}", result.stderr_text());
    assert!(result.stderr_text().contains("a.txt"), "{}", result.stderr_text());
    assert_eq!(std::fs::read(dir.path().join("out/a.txt")).unwrap_or_default(), b"hello");
}

#[test]
fn project_cannot_widen_limits() {
    let dir = folder();
    std::fs::write(dir.path().join("codebox.toml"), "[limits]\ntimeout = \"unlimited\"\nmemory = \"100G\"\n")
        .expect("a file");
    let result = run_in(dir.path(), &["run", "--json", "-c", "print(1)"]);
    let report = result.report().expect("a report");
    // The setting is refused or has no effect; it never widens the limit.
    if report.kind() == "ok" {
        assert_eq!(report.at("/limits/wall_ms"), 60_000, "{}", report.at("/limits"));
    }
}

#[test]
fn reports_cancellation_on_ctrl_c() {
    let shared = folder();
    let grant = format!("{}:/work:rw", shared.path().display());
    let program = "print('so far')\nopen('/work/up', 'w').close()\nwhile True: pass";
    for json in [false, true] {
        let args: &[&str] = if json { &["run", "--json"] } else { &["run"] };
        let mut command = kit().codebox().args(args).args(["--dir", &grant, "-c", program]).command();
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("process starts");
        let ready_file = shared.path().join("up");
        let start = Instant::now();
        while !ready_file.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "the program did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_file(&ready_file).expect("file was created");
        let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("`kill` is available").success());
        let output = child.wait_with_output().expect("process ends");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stdout.contains("so far"), "{stdout}");
        if json {
            let report: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
            assert_eq!(report["exit_code"], 130, "{report}");
        } else {
            assert!(stderr.contains("cancelled"), "{stderr}");
        }
    }
}

/// Returns the file that a note about a whole output names.
fn spilled_file(stderr: &str, stream: &str) -> String {
    let note = format!("the output to {stream} (");
    let line = stderr.lines().find(|line| line.contains(&note)).unwrap_or_else(|| panic!("no note: {stderr}"));
    line.rsplit_once(" is in ").expect("the note names a file").1.to_owned()
}

#[test]
fn cuts_output_and_keeps_all_of_it() {
    let program = "import sys\nfor n in range(5): print('é', n)\nprint('x' * 9, file=sys.stderr)\nsys.exit(3)";
    let cut = run_in(folder().path(), &["run", "--output-lines", "2", "--output-bytes", "8", "-c", program]);
    let stderr = cut.stderr_text();
    assert_eq!((cut.code, cut.stdout_text().as_str()), (Some(3), "é 0\né \n...[truncated]"), "{stderr}");
    assert!(stderr.starts_with("xxxxxxxx\n...[truncated]"), "{stderr}");
    let whole = |stream: &str| std::fs::read_to_string(spilled_file(&stderr, stream)).expect("the file exists");
    assert_eq!((whole("stdout").as_str(), whole("stderr").as_str()), ("é 0\né 1\né 2\né 3\né 4\n", "xxxxxxxxx\n"));

    let json = run_in(folder().path(), &["run", "--json", "--output-lines", "1", "-c", "print(1); print(2)"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("a report");
    assert_eq!(report["stdout"], "1\n...[truncated]", "{report}");
    assert_eq!(
        (&report["spilled"][0]["stream"], &report["spilled"][0]["bytes"]),
        (&"stdout".into(), &4.into()),
        "{report}"
    );
    let file = report["spilled"][0]["path"].as_str().expect("a path");
    assert_eq!(std::fs::read_to_string(file).expect("the file exists"), "1\n2\n");
}

#[test]
fn keeps_no_file_of_output_that_is_not_cut() {
    let fits = run_in(folder().path(), &["run", "--output-lines", "2", "-c", "print('one'); print('two')"]);
    assert_eq!((fits.stdout_text().as_str(), fits.stderr_text().as_str()), ("one\ntwo\n", ""));
    assert_eq!(run_in(folder().path(), &["run", "--output-bytes", "0", "-c", "1"]).code, Some(125));
}
