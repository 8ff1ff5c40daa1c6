//! Logs, timings and traces: stages of codebox, and nothing of a guest.

use std::fs;
use std::process::Command;

use crate::support::{assert_one_line, folder, kit, run, run_in};

/// Program with a secret in its text, its variable, its output and the name of its file.
const PROGRAM: &str =
    "import os, time; open('sesame-name', 'w').write('sesame'); print('sesame', os.environ['SESAME'])";

const STAGES: [&str; 8] = ["job", "admit", "analyze", "select", "prepare", "open", "confine", "exec"];

#[test]
fn writes_trace_of_stages_without_guest_data() {
    let folder = folder();
    let args = ["--trace", "t.json", "run", "--env", "SESAME=sesame-value", "-c", PROGRAM];
    let result = run_in(folder.path(), &args);
    assert_eq!(result.stdout_text(), "sesame sesame-value\n", "{}", result.stderr_text());
    let text = fs::read_to_string(folder.path().join("t.json")).expect("the trace is written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let names: Vec<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    for stage in STAGES {
        assert_eq!(names.iter().filter(|name| **name == stage).count(), 1, "{names:?}");
        let event = events.iter().find(|event| event["name"] == stage).expect("it is there");
        assert_eq!(event["args"]["outcome"], "ok", "{event}");
    }
    let job = events.iter().find(|event| event["name"] == "job").expect("a job");
    assert_eq!((&job["args"]["backend"], &job["args"]["outcome"]), (&"wasm".into(), &"ok".into()));
    assert_eq!(job["args"]["stdout_bytes"], 20);
    assert!(!text.contains("sesame"), "{text}");
}

#[test]
fn trace_names_the_failed_stage() {
    let folder = folder();
    let result = run_in(folder.path(), &["--trace", "t.json", "run", "--isolation", "vm", "-c", "print(1)"]);
    assert_eq!(result.code, Some(125), "{}", result.stderr_text());
    let text = fs::read_to_string(folder.path().join("t.json")).expect("the trace is written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let outcome = |stage: &str| {
        let events = trace["traceEvents"].as_array().expect("events");
        events.iter().find(|event| event["name"] == stage).map(|event| event["args"]["outcome"].clone())
    };
    assert_eq!((outcome("admit"), outcome("exec")), (Some("ok".into()), None), "{text}");
    assert_eq!(outcome("select"), Some("engine_unavailable".into()), "{text}");
}

#[test]
fn prints_timings_after_the_output() {
    let result = run_in(folder().path(), &["--timings", "run", "-c", "print(1)"]);
    let stderr = result.stderr_text();
    assert_eq!(result.stdout_text(), "1\n");
    assert!(stderr.lines().all(|line| line.contains(" ms")), "{stderr}");
    for stage in STAGES {
        assert!(stderr.contains(&format!(" {stage} ")), "{stderr}");
    }
}

#[test]
fn timings_of_a_lock_have_its_stages() {
    let folder = folder();
    fs::write(folder.path().join("main.py"), "print(1)").expect("can be written");
    let result = run_in(folder.path(), &["--timings", "lock", "main.py"]);
    let stderr = result.stderr_text();
    assert_eq!(result.code, Some(125), "{stderr}");
    let line = |stage: &str| stderr.lines().find(|line| line.contains(&format!(" {stage} "))).unwrap_or_default();
    assert!(line("admit").ends_with("outcome=ok"), "{stderr}");
    assert!(line("lock").ends_with("outcome=invalid_request"), "{stderr}");
}

#[test]
fn logs_to_a_file_as_text_or_json() {
    let folder = folder();
    for file in ["log.txt", "log.json"] {
        let spec = format!("trace={file}");
        let args = ["--log", &spec, "run", "--env", "SESAME=sesame-value", "-c", PROGRAM];
        let result = run_in(folder.path(), &args);
        // The note about the file of the program is no log.
        assert_eq!(result.stderr_text().lines().count(), 1, "{}", result.stderr_text());
        let log = fs::read_to_string(folder.path().join(file)).expect("the log is written");
        assert!(log.contains("codebox_runner") && !log.contains("sesame") && !log.contains("wasmtime"), "{log}");
        let is_json = log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert_eq!(is_json, file == "log.json", "{log}");
    }
    let result = run(kit().codebox().args(["run", "-c", "print(1)"]).env("CODEBOX_LOG", "info"));
    assert!(result.stderr_text().contains("codebox_runner"), "{}", result.stderr_text());
}

#[test]
fn replaces_a_trace_and_no_other_file() {
    let folder = folder();
    let program = folder.path().join("main.py");
    fs::write(&program, "print(1)").expect("can be written");
    let result = run_in(folder.path(), &["--trace", "main.py", "run", "main.py"]);
    assert_one_line(&result, 125, "cannot write the trace to main.py");
    assert_eq!(fs::read_to_string(&program).expect("it is there"), "print(1)");
    for _ in 0..2 {
        assert_eq!(run_in(folder.path(), &["--trace", "t.json", "run", "main.py"]).stdout_text(), "1\n");
    }
    let text = fs::read_to_string(folder.path().join("t.json")).expect("the trace is written");
    assert_eq!(text.matches("\"name\":\"job\"").count(), 1, "{text}");
}

#[test]
fn writes_through_no_link() {
    let folder = folder();
    fs::write(folder.path().join("victim"), "precious").expect("can be written");
    std::os::unix::fs::symlink("victim", folder.path().join("t.json")).expect("a link");
    for option in [["--trace", "t.json"], ["--log", "info=./t.json"]] {
        let result = run_in(folder.path(), &[&option[..], &["run", "-c", "print(1)"]].concat());
        assert_one_line(&result, 126, "cannot write");
        assert!(result.stdout.is_empty());
    }
    assert_eq!(fs::read_to_string(folder.path().join("victim")).expect("file exists"), "precious");
}

/// Program that replaces the content of a trace that it can reach.
const REPLACES_TRACE: &str = "import os\nfor dir, _, names in os.walk('/work'):\n    for name in names:\n        open(os.path.join(dir, name), 'w').write('[1]')\nprint('done')";

#[test]
fn refuses_files_that_the_program_can_write() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).expect("can be created");
    let absolute = folder.path().join("a.json").display().to_string();
    let log = format!("debug={absolute}");
    for option in [
        ["--trace", "t.json"],
        ["--trace", "sub/t.json"],
        ["--trace", absolute.as_str()],
        ["--log", "debug=./t.log"],
        ["--log", log.as_str()],
    ] {
        for grant in [["--dir", ".:/work:rw"], ["--out", "."]] {
            let args = [&option[..], &["run"], &grant, &["-c", REPLACES_TRACE]].concat();
            let result = run_in(folder.path(), &args);
            assert_one_line(&result, 125, "the program can create and replace files in");
            let name = option[1].rsplit('/').next().expect("a name");
            assert!(result.stderr_text().contains(name), "{}", result.stderr_text());
        }
        // A directory that the program can only read does not matter, and neither does another one.
        for grant in [".:/work", "sub:/sub:rw"] {
            if option[1].starts_with("sub/") && grant.starts_with("sub") {
                continue;
            }
            let args = [&option[..], &["run", "--dir", grant, "-c", "print(1)"]].concat();
            let result = run_in(folder.path(), &args);
            assert_eq!((result.code, result.stdout_text().as_str()), (Some(0), "1\n"), "{}", result.stderr_text());
        }
    }
    let text = fs::read_to_string(folder.path().join("t.json")).expect("the trace is written");
    assert!(text.starts_with("{\"traceEvents\":[{"), "{text}");
}

/// A hard link is another name of the same file, which no check of paths finds.
#[test]
fn trace_has_nothing_that_the_program_wrote() {
    let folder = folder();
    let granted = folder.path().join("granted");
    fs::create_dir(&granted).expect("can be created");
    fs::write(folder.path().join("t.json"), "").expect("can be written");
    fs::hard_link(folder.path().join("t.json"), granted.join("link")).expect("a link");
    let args = ["--trace", "t.json", "run", "--dir", "granted:/work:rw", "-c", REPLACES_TRACE];
    let result = run_in(folder.path(), &args);
    assert_eq!((result.code, result.stdout_text().as_str()), (Some(0), "done\n"), "{}", result.stderr_text());
    let text = fs::read_to_string(folder.path().join("t.json")).expect("the trace is written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert!(events.iter().all(serde_json::Value::is_object) && !events.is_empty(), "{text}");
}

#[test]
fn reports_failure_to_write_the_trace_to_a_quiet_user() {
    let folder = folder();
    // A file may have one block, which is less than a trace needs.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" -q --trace t.json run -c 'print(1)'";
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).arg(kit().binary()).current_dir(folder.path());
    let output = shell.env_clear().env("CODEBOX_HOME", kit().home()).output().expect("bash starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"1\n", "{stderr}");
    assert!(stderr.starts_with("codebox: cannot write t.json: "), "{stderr}");
}

#[test]
fn rejects_a_log_filter_that_is_not_utf8() {
    use std::os::unix::ffi::OsStringExt as _;
    let text = std::ffi::OsString::from_vec(b"deb\xffug".to_vec());
    let result = run(kit().codebox().args(["run", "-c", "print(1)"]).env("CODEBOX_LOG", text));
    assert_one_line(&result, 125, "cannot use CODEBOX_LOG=deb");
    assert!(result.stderr_text().contains("it is not UTF-8"), "{}", result.stderr_text());
}

#[test]
fn rejects_an_invalid_log_filter() {
    let result = run(kit().codebox().args(["run", "-c", "print(1)"]).env("CODEBOX_LOG", "codebox=loud"));
    assert_eq!(result.code, Some(125));
    assert!(
        result.stderr_text().starts_with("codebox: cannot use CODEBOX_LOG=codebox=loud"),
        "{}",
        result.stderr_text()
    );
    let result = run(kit().codebox().args(["--trace", "/no/such/dir/t.json", "run", "-c", "print(1)"]));
    assert_eq!((result.code, result.stdout.is_empty()), (Some(126), true), "{}", result.stderr_text());
}
