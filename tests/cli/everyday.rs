//! Short forms of everyday use, and the advice that follows failures.

use std::fs;

use serde_json::Value;

use crate::support::{folder, kit, run, run_in};

#[test]
fn files_are_run_without_a_command() {
    let dir = folder();
    fs::write(dir.path().join("a.py"), "import sys; print(sys.argv[1:])").expect("it is ours");
    let ran = run_in(dir.path(), &["a.py", "run", "--json"]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "['run', '--json']\n"), "{}", ran.stderr_text());
}

#[test]
fn directories_have_a_place_by_their_name() {
    let dir = folder();
    for name in ["data", "out"] {
        fs::create_dir(dir.path().join(name)).expect("a directory");
    }
    fs::write(dir.path().join("data/a.txt"), "text").expect("it is ours");
    let program = "text = open('data/a.txt').read()\nopen('out/b.txt', 'w').write(text * 2)\ntry:\n    open('data/c.txt', 'w')\nexcept OSError as error:\n    print(type(error).__name__)";
    let ran = run_in(dir.path(), &["run", "--dir", "data", "--dir", "./out/:rw", "-c", program]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
    assert!(ran.stdout_text().contains("Error"), "data is read-only: {}", ran.stdout_text());
    assert_eq!(fs::read_to_string(dir.path().join("out/b.txt")).expect("it was written"), "texttext");
    fs::write(dir.path().join("sib.py"), "x = 7").expect("it is ours");
    fs::write(dir.path().join("main.py"), "import sib; print(sib.x)").expect("it is ours");
    let ran = run_in(dir.path(), &["run", "--dir", ".", "main.py"]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "7\n"), "{}", ran.stderr_text());
}

#[test]
fn variables_come_from_files() {
    let dir = folder();
    fs::write(dir.path().join("a.env"), "# ours\nA=1\nexport B='two words'\nHOST=$HOME\n").expect("it is ours");
    fs::write(dir.path().join("b.env"), "A=2\nC=3\n").expect("it is ours");
    let program = "import os; print([os.environ.get(name) for name in ('A', 'B', 'C', 'HOST')])";
    let files = ["--env-file", "a.env", "--env-file", "b.env", "--env", "C=4"];
    let ran = run_in(dir.path(), &[&["run"], &files[..], &["-c", program]].concat());
    let expected = "['2', 'two words', '4', '$HOME']\n";
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), expected), "{}", ran.stderr_text());
    fs::write(dir.path().join("bad.env"), "A=1\nsecret-value").expect("it is ours");
    let refused = run_in(dir.path(), &["run", "--env-file", "bad.env", "-c", "1"]);
    assert!(refused.stderr_text().contains("bad.env: line 2: "), "{}", refused.stderr_text());
    assert!(!refused.stderr_text().contains("secret-value"), "{}", refused.stderr_text());
    // An earlier job may have made the link.
    fs::write(dir.path().join("other"), "KEY=of-the-user\n").expect("it is ours");
    std::os::unix::fs::symlink("other", dir.path().join("link.env")).expect("it is ours");
    let refused = run_in(dir.path(), &["run", "--env-file", "link.env", "-c", "1"]);
    assert_eq!(refused.code, Some(126), "{}", refused.stderr_text());
    assert!(refused.stderr_text().contains("symbolic link"), "{}", refused.stderr_text());
}

#[test]
fn missed_files_are_named_with_the_command_that_grants_them() {
    let dir = folder();
    fs::write(dir.path().join("sib.py"), "x = 7").expect("it is ours");
    fs::write(dir.path().join("main.py"), "import sib; print(sib.x)").expect("it is ours");
    fs::write(dir.path().join("a.txt"), "text").expect("it is ours");
    for (args, file, command) in [
        (&["run", "main.py"][..], "sib.py", "codebox run --dir . main.py"),
        (&["main.py"], "sib.py", "codebox run --dir . main.py"),
        (&["run", "-c", "open('a.txt')"], "a.txt", "codebox run --dir . -c 'open('\\''a.txt'\\'')'"),
        (
            &["run", "--lang", "js", "-c", "require('fs').readFileSync('a.txt')"],
            "a.txt",
            "codebox run --dir . --lang js -c ",
        ),
    ] {
        let ran = run_in(dir.path(), args);
        let expected = format!("codebox: the program is not granted {file}; grant it with: {command}");
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(ran.stderr_text().lines().any(|line| line.starts_with(&expected)), "{args:?}: {}", ran.stderr_text());
    }
    for args in [&["run", "-c", "open('b.txt')"][..], &["run", "-c", "open('../a.txt')"], &["run", "-c", "import nope"]]
    {
        let ran = run_in(dir.path(), args);
        assert!(!ran.stderr_text().contains("not granted"), "{args:?}: {}", ran.stderr_text());
    }
}

#[test]
fn listings_are_json_documents() {
    let json = |args: &[&str]| -> Value {
        let ran = run(kit().codebox().args(args.iter().copied()));
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ran.stderr_text()))
    };
    let version = json(&["version", "--json"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["runtimes"]["python"].is_string(), "{version}");
    let plain = run(kit().codebox().args(["version"])).stdout_text();
    assert_eq!(plain, format!("codebox {}\n", env!("CARGO_PKG_VERSION")));
    let runtimes = json(&["runtime", "list", "--json"]);
    let python = &runtimes["runtimes"][0];
    assert_eq!((&python["name"], &python["state"]), (&"python".into(), &"installed".into()), "{runtimes}");
    assert!(python["size"].as_u64() > Some(0) && python["reason"].is_null(), "{runtimes}");
    let images = json(&["image", "list", "--json"]);
    let data = images["images"].as_array().expect("images").iter().find(|image| image["name"] == "python-data");
    assert_eq!(data.expect("it is built in")["origin"], "built in", "{images}");
    let doctor = json(&["doctor", "--json"]);
    let checks = doctor["checks"].as_array().expect("checks");
    assert!(checks.len() > 5, "{doctor}");
    assert!(checks.iter().all(|check| check["name"].is_string() && check["state"].is_string()), "{doctor}");
    assert!(json(&["packages", "list", "--json"])["packages"].is_array());
}
