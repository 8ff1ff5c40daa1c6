//! `codebox audit`.

use std::fs;
use std::path::Path;

use codebox_testkit::{Codebox, ProcessResult};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run};

/// A home with the runtimes of the tests.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = folder();
        kit().share_runtimes(home.path()).expect("a home");
        Self(home)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Codebox {
        kit().codebox().home(self.path()).env("CODEBOX_HOST", "off").args(args.iter().copied())
    }

    fn run(&self, args: &[&str]) -> ProcessResult {
        run(self.command(args))
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr_text());
        serde_json::from_str(&ran.stdout_text()).expect("a JSON document")
    }

    /// Returns the events of all records, the oldest first.
    fn events(&self) -> Vec<Value> {
        let mut records = self.json(&["audit", "list", "--json", "--last", "1000"])["records"].take();
        let records = records.as_array_mut().expect("records");
        records.iter_mut().rev().map(|record| record["event"].take()).collect()
    }

    fn log(&self) -> std::path::PathBuf {
        self.path().join("data/jobs/audit/log.jsonl")
    }

    fn configure(&self, text: &str) {
        let dir = self.path().join("config");
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("config.toml"), text).expect("it is ours");
    }
}

#[test]
fn runs_are_recorded_with_grants_and_results_and_without_texts() {
    let home = Home::new();
    let dir = folder();
    let grant = format!("{}:/data:rw", dir.path().display());
    let code = "import os, sys, socket
open('/data/made', 'w').write('hidden text')
try: socket.create_connection(('example.org', 80), 1)
except OSError: pass
print('printed'); sys.exit(3)";
    let job = run(home
        .command(&[
            "run",
            "--json",
            "--dir",
            &grant,
            "--env",
            "TOKEN=sk-hidden",
            "--timeout",
            "9s",
            "-c",
            code,
            "secret argument",
        ])
        .env("OTHER", "sk-hidden"));
    assert_eq!(job.code, Some(3), "{}", job.stderr_text());
    let report: Value = serde_json::from_str(&job.stdout_text()).expect("a report");
    let id = report["job_id"].as_str().expect("an id");
    let events = home.events();
    let [started, ended] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((started["type"].as_str(), started["id"].as_str()), (Some("started"), Some(id)));
    assert_eq!((ended["type"].as_str(), ended["id"].as_str()), (Some("ended"), Some(id)));
    assert_eq!(started["program"]["name"], "-c");
    assert_eq!(started["program"]["bytes"], code.len());
    assert_eq!(started["program"]["arguments"], 1);
    assert_eq!(started["program"]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(started["grants"]["dirs"][0]["guest"], "/data");
    assert_eq!(started["grants"]["dirs"][0]["access"], "rw");
    assert_eq!(started["limits"]["wall"], report["limits"]["wall"]);
    assert_eq!((ended["kind"].as_str(), ended["exit_code"].as_u64()), (Some("guest_error"), Some(3)));
    let audited = &ended["report"];
    assert_eq!(audited["files"]["created"][0]["path"], report["files"]["created"][0]["path"]);
    for part in ["usage", "provenance", "outcome"] {
        assert_eq!(audited[part], report[part], "{part}");
    }
    assert_eq!(audited.get("denials").unwrap_or(&Value::Array(Vec::new())), &report["denials"]);
    let text = fs::read_to_string(home.log()).expect("a log");
    for hidden in ["hidden", "printed", "secret argument", "create_connection"] {
        assert!(!text.contains(hidden), "{text}");
    }
    let shown = home.run(&["audit", "show", id]);
    assert!(shown.stdout_text().contains("guest_error"), "{}", shown.stdout_text());
    let listed = home.run(&["audit", "list"]).stdout_text();
    assert!(listed.contains("python -c") && listed.contains("guest_error (3)") && listed.contains("dir:1"), "{listed}");
}

#[test]
fn changes_of_the_log_are_found() {
    let home = Home::new();
    for code in ["1", "2", "3"] {
        assert_eq!(home.run(&["run", "-c", code]).code, Some(0));
    }
    let verified = home.json(&["audit", "verify", "--json"]);
    assert_eq!((&verified["intact"], &verified["log"]["records"]), (&true.into(), &6.into()));
    let digest = verified["log"]["digest"].as_str().expect("a digest").to_owned();
    assert_eq!(home.run(&["audit", "verify", "--expect", &digest]).code, Some(0));
    let exported = home.run(&["audit", "export", "--json"]).stdout_text();
    assert_eq!(exported.lines().count(), 6);
    assert!(exported.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let text = fs::read_to_string(home.log()).expect("a log");
    fs::write(home.log(), text.replacen("\"bytes\":1", "\"bytes\":2", 1)).expect("it is ours");
    assert_one_line(&home.run(&["audit", "verify"]), 125, "line 1 was changed");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(home.log(), lines[..4].join("\n") + "\n").expect("it is ours");
    let broken = home.run(&["audit", "verify", "--json"]);
    assert!(broken.code == Some(125) && broken.stdout_text().contains("were removed"), "{}", broken.stdout_text());
    fs::write(home.log(), &text).expect("it is ours");
    assert_eq!(home.run(&["audit", "prune", "--older-than", "1d"]).stdout_text(), "removed 0 records\n");
    assert_eq!(home.run(&["audit", "prune", "--older-than", "0s"]).stdout_text(), "removed 5 records\n");
    assert_eq!(home.run(&["audit", "verify", "--expect", &digest]).code, Some(0));
}

#[test]
fn a_log_that_cannot_be_written_is_reported_or_refused() {
    let home = Home::new();
    let audit = home.path().join("data/jobs/audit");
    fs::create_dir_all(audit.parent().expect("a parent")).expect("a directory");
    fs::write(&audit, "no directory").expect("it is ours");
    let ran = home.run(&["run", "-c", "print(1)"]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "1\n"));
    assert!(ran.stderr_text().contains("not recorded in the audit log"), "{}", ran.stderr_text());
    home.configure("require_audit = true\n");
    let refused = home.run(&["run", "-c", "print(1)"]);
    assert_one_line(&refused, 125, "cannot write the audit log");
    assert_eq!(refused.stdout_text(), "");
    home.configure("audit = false\n");
    assert_eq!(home.run(&["run", "-c", "print(1)"]).stderr_text(), "");
    fs::remove_file(&audit).expect("it is ours");
    assert_eq!(home.run(&["run", "-c", "print(1)"]).code, Some(0));
    assert!(!audit.exists());
}

/// The end of a job that cannot be recorded is recorded later.
#[test]
fn ends_wait_until_the_log_can_be_written() {
    let home = Home::new();
    assert_eq!(home.run(&["run", "-c", "1"]).code, Some(0));
    let (log, kept) = (home.log(), home.log().with_extension("kept"));
    fs::rename(&log, &kept).expect("it is ours");
    fs::create_dir(&log).expect("a directory");
    for _ in 0..2 {
        let ran = home.run(&["run", "-c", "1"]);
        assert!(ran.stderr_text().contains("not recorded in the audit log"), "{}", ran.stderr_text());
    }
    fs::remove_dir(&log).expect("it is ours");
    fs::rename(&kept, &log).expect("it is ours");
    let events = home.events();
    assert_eq!(
        (events[0]["type"].as_str(), events[1]["type"].as_str()),
        (Some("started"), Some("ended")),
        "{events:?}"
    );
    assert_eq!(events[0]["id"], events[1]["id"]);
    assert_eq!(home.run(&["audit", "verify"]).code, Some(0));
}

/// A program that is explained was not refused.
#[test]
fn explanations_are_not_recorded() {
    let home = Home::new();
    let explained = home.run(&["explain", "--dir", "/no/such/dir:/data", "-c", "print(1)"]);
    assert_eq!(explained.code, Some(126), "{}", explained.stderr_text());
    assert_eq!(home.events().len(), 0);
}

#[test]
fn a_damaged_log_is_reset() {
    let home = Home::new();
    assert_eq!(home.run(&["run", "-c", "1"]).code, Some(0));
    assert_one_line(&home.run(&["audit", "reset"]), 125, "the audit log is intact");
    let text = fs::read_to_string(home.log()).expect("a log");
    fs::write(home.log(), text + "damage\n").expect("it is ours");
    let ran = home.run(&["run", "-c", "1"]);
    assert!(ran.code == Some(0) && ran.stderr_text().contains("codebox audit reset"), "{}", ran.stderr_text());
    let reset = home.run(&["audit", "reset"]).stdout_text();
    let kept = reset.trim().rsplit_once(' ').expect("a path").1;
    assert!(fs::read_to_string(kept).expect("the old log").ends_with("damage\n"), "{reset}");
    assert_eq!(home.run(&["run", "-c", "1"]).stderr_text(), "");
    assert!(home.run(&["audit", "list"]).stdout_text().contains("log reset"));
    assert_eq!(home.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_killed_run_is_recorded() {
    let home = Home::new();
    let mut command = home.command(&["run", "-c", "print('started', flush=True)\nwhile True: pass"]).command();
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("it is read");
    assert_eq!(line, "started\n");
    assert_eq!(home.events().len(), 1);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    let events = home.events();
    assert_eq!((events.len(), events[1]["type"].as_str()), (2, Some("interrupted")));
    assert_eq!(events[0]["id"], events[1]["id"]);
}

#[test]
fn refused_requests_are_recorded() {
    let home = Home::new();
    let refused = run(home.command(&["run", "--dir", "/no/such/dir:/data", "-c", "print(1)"]));
    assert_eq!(refused.code, Some(126), "{}", refused.stderr_text());
    let events = home.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["type"], &events[0]["program"]), (&"refused".into(), &"-c".into()));
    assert!(events[0]["reason"].as_str().is_some_and(|reason| reason.contains("/no/such/dir")), "{events:?}");
    assert!(home.run(&["audit", "list"]).stdout_text().contains("-c refused"));
    assert_eq!(home.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn texts_are_recorded_if_the_user_wants_them() {
    let home = Home::new();
    home.configure("audit-text = true");
    let code = "import os\nprint('known', os.environ['PASS'], 'ghp_0123456789abcdefghij0123456789abcdef')";
    let job = run(home.command(&["run", "--env", "PASS=a-secret-value", "-c", &format!("{code} # a-secret-value")]));
    assert_eq!(job.code, Some(0), "{}", job.stderr_text());
    let program = &home.events()[0]["program"];
    let text = program["text"].as_str().expect("a text");
    assert_eq!(text, "import os\nprint('known', os.environ['PASS'], '***') # ***");
    let log = fs::read_to_string(home.log()).expect("a log");
    assert!(!log.contains("a-secret-value") && !log.contains("ghp_"));
}

/// A job that ends when the disk is full has ended, also in the records.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_loses_no_end() {
    use std::io::Write as _;
    use std::process::Command;

    let home = Home::new();
    let jobs = home.path().join("data/jobs");
    let shared = folder();
    fs::create_dir_all(&jobs).expect("a directory");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"]).arg(&jobs).status();
    // Only root can mount a small file system.
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let program =
        "import os, time\nopen('/s/started', 'w').close()\nwhile not os.path.exists('/s/go'): time.sleep(0.01)";
    let grant = format!("{}:/s:rw", shared.path().display());
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| home.run(&["run", "--lang", "python", "--dir", &grant, "-c", program]));
        while !shared.path().join("started").exists() && !running.is_finished() {
            std::thread::yield_now();
        }
        let mut full = fs::File::create(jobs.join("full")).expect("a file");
        let _ = std::io::copy(&mut std::io::repeat(1), &mut full);
        while full.write_all(&[1]).is_ok() {}
        fs::write(shared.path().join("go"), "").expect("it is ours");
        running.join().expect("it ends")
    });
    fs::remove_file(jobs.join("full")).expect("it is ours");
    let jobs_list = home.run(&["jobs", "--json"]).stdout_text();
    let log = home.run(&["audit", "list", "--json"]).stdout_text();
    let _ = Command::new("umount").arg("--lazy").arg(&jobs).status();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
    assert!(jobs_list.contains("\"finished\"") && !jobs_list.contains("interrupted"), "{jobs_list}");
    assert!(log.contains("\"ended\"") && !log.contains("interrupted"), "{log}");
}
