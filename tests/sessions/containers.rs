//! Sessions whose interpreter is kept in a container.

use codebox_testkit::{BASE_IMAGE, ProcessResult, check_engine, is_required};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::kit;

/// Home with an engine, whose sessions end with the value.
struct EngineHome {
    folder: TempDir,
    engine: &'static str,
}

impl EngineHome {
    /// Returns the homes of the engines of this machine.
    fn all() -> Vec<Self> {
        let is_available = |engine: &&str| match check_engine(kit(), engine) {
            Ok(()) => true,
            Err(reason) => {
                assert!(!is_required(engine), "{reason}");
                false
            }
        };
        let home = |engine| {
            let folder = kit().folder().expect("a directory");
            kit().home_with_engine(&folder.path().join("home"), engine, "").expect("a home");
            Self { folder, engine }
        };
        ["podman", "docker"].into_iter().filter(is_available).map(home).collect()
    }

    fn run(&self, words: &[&str]) -> ProcessResult {
        let command = kit().codebox().home(&self.folder.path().join("home")).arg("session");
        command.args(words.iter().map(|word| (*word).to_owned())).run().expect("it runs")
    }

    #[track_caller]
    fn new_session(&self, options: &[&str]) -> String {
        let ran = self.run(&[&["new", "--isolation", "container"], options].concat());
        assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{}", self.engine);
        ran.stdout_text().trim().to_owned()
    }

    /// Returns the output of a successful cell.
    #[track_caller]
    fn exec(&self, id: &str, code: &str) -> String {
        let ran = self.run(&["exec", id, "-c", code]);
        assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(0), ""), "{} {}", self.engine, ran.stdout_text());
        ran.stdout_text()
    }

    #[track_caller]
    fn report(&self, id: &str, code: &str) -> Value {
        let ran = self.run(&["exec", "--json", id, "-c", code]);
        serde_json::from_str(&ran.stdout_text()).expect("a report")
    }
}

impl Drop for EngineHome {
    fn drop(&mut self) {
        let list = self.run(&["list", "--json"]).stdout_text();
        let document: Value = serde_json::from_str(&list).unwrap_or_default();
        for session in document["sessions"].as_array().into_iter().flatten() {
            let _ = self.run(&["stop", session["id"].as_str().unwrap_or_default()]);
        }
        let _ = self.run(&["end"]);
    }
}

#[test]
fn cells_of_python_share_their_state() {
    for home in EngineHome::all() {
        // An image or an engine is that of a container.
        let named = home.run(&["new", "--image", BASE_IMAGE]).stdout_text();
        assert_eq!(home.exec(named.trim(), "import os; print(os.path.exists('/usr/bin'))"), "True\n");
        let id = home.new_session(&[]);
        assert_eq!(home.exec(&id, "import threading, os\nx = 41"), "");
        assert_eq!(home.exec(&id, "x + 1"), "42\n");
        assert_eq!(home.exec(&id, "print('out'); display('shown'); _"), "out\n'shown'\n42\n");
        assert_eq!(home.exec(&id, "import asyncio\nawait asyncio.sleep(0, 7)"), "7\n");
        // Threads and processes are there, and their output comes before the end of the cell.
        let text = "import subprocess\nsubprocess.run(['sh', '-c', 'echo child; echo error >&2']).returncode";
        let report = home.report(&id, text);
        assert_eq!((&report["stdout"], &report["stderr"]), (&"child\n".into(), &"error\n".into()), "{report}");
        assert_eq!(report["results"][0]["data"]["text/plain"], "0");
        assert_eq!(report["provenance"]["isolation"], "container");
        assert_eq!(report["session"]["kept"], true, "{report}");
        assert_eq!(report["enforcement"]["limits"]["cpu"], "unsupported");
        // An exception ends its cell alone, and its frames are those of the cells.
        home.exec(&id, "def f():\n    return 1 / 0");
        let report = home.report(&id, "f()");
        assert_eq!(
            (&report["exit_code"], &report["error"]["name"]),
            (&1.into(), &"ZeroDivisionError".into()),
            "{report}"
        );
        let shown = report["stderr"].as_str().expect("a text");
        assert!(shown.contains("\", line 1, in <module>\n    f()") && !shown.contains("/.codebox"), "{shown}");
        assert_eq!(home.report(&id, "import sys; sys.exit(3)")["exit_code"], 3);
        assert_eq!(home.report(&id, "x =")["error"]["name"], "SyntaxError");
        assert_eq!(home.exec(&id, "x"), "41\n");
        // A cell can close its streams, fork, and write much.
        assert_eq!(home.exec(&id, "os.fork() or os._exit(0); 1"), "1\n");
        assert_eq!(home.exec(&id, "len(print('x' * 3_000_000) or '')").len(), 3_000_003);
        let named = "import codebox\ntry: codebox.tools.a()\nexcept AttributeError as error: print('none')";
        assert_eq!(home.exec(&id, named), "none\n");
        // The standard input is empty, and the files of the interpreter are no modules.
        assert_eq!(home.exec(&id, "import sys\nsys.stdin.read(), subprocess.run(['cat']).returncode"), "('', 0)\n");
        assert_eq!(home.report(&id, "import session")["error"]["name"], "ModuleNotFoundError");
        // Threads that a cell leaves behind do not run until the next one.
        home.exec(&id, "import threading, time\ncount = [0]\ndef go():\n    while True: count[0] += 1\nthreading.Thread(target=go, daemon=True).start()");
        let counted = |code: &str| home.exec(&id, code).trim().parse::<u64>().expect("a number");
        let before = counted("time.sleep(0.05); count[0]");
        std::thread::sleep(std::time::Duration::from_millis(500));
        let used = counted(
            "import resource; u = resource.getrusage(resource.RUSAGE_SELF); int(1000 * (u.ru_utime + u.ru_stime))",
        );
        assert!(counted("count[0]") > before && used < 450, "{used} ms");
        let other = home.new_session(&[]);
        assert_eq!(home.exec(&other, "'x' in globals()"), "False\n");
    }
}

#[test]
fn cells_of_scripts_share_their_state() {
    for home in EngineHome::all() {
        let id = home.new_session(&["--lang", "ts"]);
        assert_eq!(home.exec(&id, "const x: number = 41; x + 1"), "42\n");
        assert_eq!(home.exec(&id, "const x = x2() + 0; function x2() { return 5 }\nx"), "5\n");
        assert_eq!(home.exec(&id, "import { basename } from 'node:path'\nbasename('/a/b')"), "'b'\n");
        assert_eq!(
            home.exec(&id, "const os = await import('node:os'); display('import(x)'); typeof os.cpus"),
            "'import(x)'\n'function'\n"
        );
        assert_eq!(
            home.exec(&id, "console.log('out'); await new Promise((r) => setTimeout(() => r({ a: 1 }), 5))"),
            "out\n{ a: 1 }\n"
        );
        let raw = home.report(
            &id,
            "display({ 'text/html': '<b>', 'image/png': new Uint8Array([1]) }, { raw: true, metadata: { a: 1 } })",
        );
        let shown = &raw["results"][0];
        assert_eq!((&shown["data"]["image/png"], &shown["metadata"]["a"]), (&"AQ==".into(), &1.into()), "{raw}");
        assert_eq!(raw["results"].as_array().map(Vec::len), Some(1));
        let report = home.report(&id, "throw new TypeError('no')");
        assert_eq!((&report["exit_code"], &report["error"]["name"]), (&1.into(), &"TypeError".into()), "{report}");
        let shown = report["stderr"].as_str().expect("a text");
        assert!(shown.contains("<cell 7>:1:7") && !shown.contains("inspector"), "{shown}");
        let wrong = home.run(&["exec", &id, "-c", "const a: = 1"]);
        assert_eq!(wrong.code, Some(1), "{}", wrong.stderr_text());
        assert!(wrong.stderr_text().starts_with("SyntaxError: "), "{}", wrong.stderr_text());
        for wrong in ["let =", "const a: = 1"] {
            assert_eq!(home.report(&id, wrong)["error"]["name"], "SyntaxError", "{wrong}");
        }
        assert_eq!(home.report(&id, "process.exit(3)")["exit_code"], 3);
        assert_eq!(home.exec(&id, "console.log('x'.repeat(300_000))").len(), 300_001);
        assert_eq!(home.exec(&id, "undefined"), "");
        assert_eq!(home.exec(&id, "require('node:fs').readFileSync(0, 'utf8')"), "''\n");
        let template = "const text = `\nimport fs from 'node:fs';\n`; text.length";
        assert_eq!(home.exec(&id, template), "27\n");
        assert_eq!(home.exec(&id, "require('node:fs').existsSync('/work') && x"), "5\n");
    }
}

#[test]
fn limits_end_the_interpreter_and_interrupts_do_not() {
    for home in EngineHome::all() {
        let id = home.new_session(&["--memory", "200M"]);
        home.exec(&id, "x = 1");
        let ran = home.run(&["exec", &id, "--timeout", "300ms", "-c", "print('begun')\nwhile True: pass"]);
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(124), "begun\n"), "{}", ran.stderr_text());
        assert!(ran.stderr_text().contains("its state since the last checkpoint is lost"), "{}", ran.stderr_text());
        let ran = home.run(&["exec", &id, "-c", "'x' in globals()"]);
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "False\n"), "{}", ran.stderr_text());
        assert!(ran.stderr_text().contains("started without its earlier state"), "{}", ran.stderr_text());
        // The end of the interpreter is that of the session's state as well.
        let ran = home.run(&["exec", &id, "-c", "import os; os._exit(7)"]);
        assert_eq!(ran.code, Some(7), "{}", ran.stderr_text());
        home.exec_with_note(&id, "y = 2");
        let command = kit().codebox().home(&home.folder.path().join("home"));
        let command = command.args(["session", "exec", &id, "-c", "print('begun', flush=True)\nwhile True: pass"]);
        let mut child = command.command().stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        let mut begun = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut begun).expect("output");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        assert_eq!(home.exec(&id, "y"), "2\n");
        // Files count when the cell has ended, however short it was.
        let few = home.new_session(&["--max-files", "50"]);
        let ran = home.run(&["exec", &few, "-c", "for i in range(100): open(f'/tmp/{i}', 'w')"]);
        assert_eq!(ran.code, Some(122), "{}", ran.stderr_text());
    }
}

impl EngineHome {
    /// Runs a cell after the interpreter has ended.
    fn exec_with_note(&self, id: &str, code: &str) {
        let ran = self.run(&["exec", id, "-c", code]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
        assert!(ran.stderr_text().contains("started without its earlier state"), "{}", ran.stderr_text());
    }
}

#[test]
fn unsupported_requests_are_refused_and_the_session_goes_on() {
    for home in EngineHome::all() {
        let id = home.new_session(&[]);
        home.exec(&id, "x = 1");
        for words in
            [&["fork", &id][..], &["checkpoint", &id, "--name", "a"], &["park", &id], &["export", &id, "/dev/null"]]
        {
            let ran = home.run(words);
            assert_eq!(ran.code, Some(125), "{words:?} {}", ran.stderr_text());
            let refused = "sessions in containers cannot be saved, forked, parked or exported";
            assert!(ran.stderr_text().contains(refused), "{words:?} {}", ran.stderr_text());
        }
        let ran = home.run(&["exec", &id, "--cpu-time", "1s", "-c", "x"]);
        assert_eq!(ran.code, Some(125), "{}", ran.stderr_text());
        let ran = home.run(&["exec", &id, "--stdin", "-c", "x"]);
        assert_eq!(ran.code, Some(125), "{}", ran.stderr_text());
        assert!(ran.stderr_text().contains("no standard input in a container"), "{}", ran.stderr_text());
        assert_eq!(home.exec(&id, "x"), "1\n");
        let ran = home.run(&["end"]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr_text().contains("cannot save all sessions"), "{}", ran.stderr_text());
        assert_eq!(home.exec(&id, "x"), "1\n");
    }
}
