//! Refusals: one line that names the object, and one line with a fix.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

use crate::support::{assert_one_line, folder, lock_images, run_and_format, run_in};

/// Command line, its exit status, and the text that its one-line message must contain.
type Refusal = (&'static [&'static str], i32, &'static str);

const REFUSALS: &[Refusal] = &[
    (&["run", "nope.py"], 125, "nope.py"),
    (&["run", "nope/deep.py"], 125, "nope/deep.py"),
    (&["run", "folder.py"], 125, "folder.py"),
    (&["run", "."], 125, "."),
    (&["run", "latin.py"], 125, "latin.py"),
    (&["run", "file.py/inner.py"], 125, "file.py/inner.py"),
    (&["run"], 125, "no program"),
    (&["run", "--nope", "file.py"], 125, "--nope"),
    (&["nope"], 125, "nope"),
    (&["run", "--memory", "12Q", "-c", "1"], 125, "12Q"),
    (&["run", "--memory", "0", "-c", "1"], 125, "0"),
    (&["run", "--memory", "-1", "-c", "1"], 125, "-1"),
    (&["run", "--memory", "99999999999999999999G", "-c", "1"], 125, "99999999999999999999G"),
    (&["run", "--memory", "1e3", "-c", "1"], 125, "1e3"),
    (&["run", "--max-output", "NaN", "-c", "1"], 125, "NaN"),
    (&["run", "--timeout", "5x", "-c", "1"], 125, "5x"),
    (&["run", "--timeout", "0", "-c", "1"], 125, "0"),
    (&["run", "--timeout", "", "-c", "1"], 125, "duration"),
    (&["run", "--max-files", "some", "-c", "1"], 125, "some"),
    (&["run", "--max-open-files", "99999999999", "-c", "1"], 125, "99999999999"),
    (&["run", "--isolation", "magic", "-c", "1"], 125, "magic"),
    (&["run", "--isolation", "container", "-c", "1"], 125, "container"),
    (&["run", "--image", "nope", "-c", "1"], 125, "nope"),
    (&["run", "--lang", "cobol", "-c", "1"], 125, "cobol"),
    (&["run", "--env", "NOT_SET", "-c", "1"], 125, "NOT_SET"),
    (&["run", "--env", "=x", "-c", "1"], 125, "=x"),
    (&["run", "--net", "a//b", "-c", "1"], 125, "a//b"),
    (&["run", "--dir", "nope:/d", "-c", "1"], 126, "nope"),
    (&["run", "--dir", "file.py:/d", "-c", "1"], 126, "file.py"),
    (&["run", "--dir", "d:/d:xx", "-c", "1"], 125, "d:/d:xx"),
    (&["run", "--dir", "..", "-c", "1"], 125, ".."),
    (&["run", "a.rb"], 125, "a.rb"),
    (&["run", "nb.ipynb"], 125, "nb.ipynb"),
    (&["nope.py"], 125, "nope.py"),
    (&["run", "ls", "-l"], 125, "ls"),
    (&["run", "-v", "d:/d", "file.py"], 125, "d:/d"),
    (&["run", "-e", "A=1", "file.py"], 125, "-e"),
    (&["run", "--rm", "-it", "file.py"], 125, "--rm"),
    (&["run", "--env-file", "file.py", "-c", "1"], 125, "file.py"),
    (&["run", "--env-file", "nope.env", "-c", "1"], 125, "nope.env"),
    (&["run", "--python", "three", "file.py"], 125, "three"),
    (&["run", "--dir", "d:relative", "-c", "1"], 125, "relative"),
    (&["run", "--dir", "d:/a/../b", "-c", "1"], 125, "/a/../b"),
    (&["run", "--dir", "d:/d", "--dir", "d:/d", "-c", "1"], 126, "/d"),
    (&["run", "--dir", "d:/", "-c", "1"], 126, "d"),
    (&["run", "--dir", "d:/usr/lib", "-c", "1"], 126, "/usr/lib"),
    (&["run", "--lang", "js", "--with", "lodash", "--dir", "d:/node_modules", "-c", "1"], 126, "/node_modules"),
    (&["run", "--lang", "js", "--with", "fs", "-c", "1"], 125, "fs"),
    (&["run", "--lang", "js", "-r", "file.py", "-c", "1"], 125, "file.py"),
    (&["run", "--dir", "/:/d", "-c", "1"], 126, "/"),
    (&["run", "--dir", "/proc:/d", "-c", "1"], 126, "/proc"),
    (&["run", "--out", "file.py", "-c", "1"], 126, "file.py"),
    (&["run", "-r", "pipe.py", "-c", "1"], 125, "pipe.py"),
    (&["lock", "-"], 125, "-"),
    (&["lock", "pipe.py"], 125, "pipe.py"),
    (&["lock", "nope.ts"], 125, "nope.ts"),
    (&["lock", "file.ts"], 125, "file.ts"),
    (&["runtime", "install", "nope"], 125, "nope"),
    (&["runtime", "install", "--from", "nope.whl"], 125, "nope.whl"),
    (&["runtime", "install", "--from", "file.py"], 125, "file.py"),
    (&["runtime", "install", "--from", "pipe.py"], 125, "pipe.py"),
    (&["runtime", "verify", "nope"], 125, "nope"),
    (&["runtime", "remove", "nope"], 125, "nope"),
    (&["image", "build", "python", "--import", "json"], 125, "python"),
    (&["image", "build", "a/b", "--import", "json"], 125, "a/b"),
    (&["image", "build", "broken", "--import", "no_such_module"], 125, "no_such_module"),
    (&["image", "remove", "python"], 125, "python"),
    (&["image", "remove", "no-such-image"], 125, "no-such-image"),
    (&["completions", "nosh"], 125, "nosh"),
    (&["run", "-q", "-v", "-c", "1"], 125, "--quiet"),
    (&["run", "--log", "bogus", "-c", "1"], 125, "bogus"),
    (&["run", "--log", "debug=logfile", "-c", "1"], 125, "debug=./logfile"),
    (&["run", "--log", "debug=", "-c", "1"], 125, "debug=./FILE"),
];

fn prepare_folder() -> tempfile::TempDir {
    let folder = folder();
    let dir = |name: &str| folder.path().join(name);
    fs::create_dir(dir("folder.py")).expect("a folder");
    fs::create_dir(dir("d")).expect("a folder");
    fs::write(dir("file.py"), "print(1)\n").expect("a file");
    fs::write(dir("file.ts"), "console.log(1)\n").expect("a file");
    fs::write(dir("a.rb"), "puts 1\n").expect("a file");
    fs::write(dir("nb.ipynb"), "{}").expect("a file");
    fs::write(dir("latin.py"), b"x = 1\nprint('\xff')\n").expect("a file");
    let made = Command::new("mkfifo").arg(dir("pipe.py")).status().expect("mkfifo starts");
    assert!(made.success());
    folder
}

#[test]
fn reports_each_refusal_in_one_line() {
    let folder = prepare_folder();
    let mut wrong = Vec::new();
    for (args, status, expected) in REFUSALS {
        let result = run_in(folder.path(), args);
        let check = std::panic::catch_unwind(|| assert_one_line(&result, *status, expected));
        if check.is_err() {
            wrong.push(format!("{args:?}: status {:?} and not {status}\n{}", result.code, result.stderr_text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn matches_refusal_messages() {
    let _image_lock = lock_images();
    let folder = prepare_folder();
    let mut text = String::new();
    for (args, ..) in REFUSALS {
        text.push_str(&format!("$ codebox {}\n{}\n", args.join(" "), run_and_format(folder.path(), args)));
    }
    assert_snapshot!("refusals", text);
}

#[test]
fn reports_each_refusal_as_json() {
    let folder = prepare_folder();
    for (args, status, _) in REFUSALS.iter().filter(|(args, ..)| args[0] == "run" && args.len() > 1) {
        let args: Vec<&str> = ["run", "--json"].into_iter().chain(args[1..].iter().copied()).collect();
        let result = run_in(folder.path(), &args);
        assert_eq!(result.code, Some(*status), "{args:?}: {}", result.stderr_text());
        let report = result.report().unwrap_or_else(|error| panic!("{args:?}: {error:#}"));
        assert_eq!(report.exit_code(), Some(i64::from(*status)), "{args:?}");
        assert_ne!(report.kind(), "internal_error", "{args:?}");
        let message = report.at("/error/message").as_str().unwrap_or_default();
        assert!(!message.is_empty() && !message.contains('\n'), "{args:?}: {message:?}");
    }
}

#[test]
fn rejects_grants_of_own_files() {
    let folder = prepare_folder();
    let home = crate::support::kit().home().canonicalize().expect("home exists");
    for dir in [home.clone(), home.join("data"), home.join("cache/prepared")] {
        let grant = format!("{}:/d", dir.display());
        assert_one_line(&run_in(folder.path(), &["run", "--dir", &grant, "-c", "1"]), 126, "codebox");
    }
}

#[test]
fn syntax_error_is_reported_as_programs_error() {
    let folder = prepare_folder();
    fs::write(folder.path().join("syntax.py"), "def f(:\n").expect("a file");
    assert_snapshot!(run_and_format(folder.path(), &["run", "syntax.py"]));
}
