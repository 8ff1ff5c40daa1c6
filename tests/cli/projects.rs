//! Programs of more than one file, and modules that are run by their names.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{assert_one_line, folder, kit, run, run_in};

/// A project with a module, a package, a secret, an ignored file and a link.
fn project(at: &Path) {
    for (path, text) in [
        ("start.py", "import helper, os, sys\nprint(helper.hi(), os.getcwd(), sys.argv, sorted(os.listdir()))\n"),
        ("helper.py", "def hi(): return 'hello'\n"),
        ("app/__init__.py", ""),
        ("app/__main__.py", "import sys; from app.inner import x; print(sys.argv[1:], x)\n"),
        ("app/inner.py", "x = 3\n"),
        ("data/a.txt", "data"),
        (".env", "SECRET=1"),
        (".gitignore", "*.log\n"),
        ("a.log", "log"),
    ] {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("it is ours");
    }
    std::os::unix::fs::symlink("/etc/passwd", at.join("link")).expect("it is ours");
}

fn output(dir: &Path, args: &[&str]) -> String {
    let ran = run_in(dir, args);
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr_text());
    ran.stdout_text()
}

#[test]
fn programs_have_copies_of_their_project() {
    let dir = folder();
    project(dir.path());
    let listed = "['.gitignore', 'app', 'data', 'helper.py', 'start.py']";
    let ran = output(dir.path(), &["run", "--project", ".", "start.py", "a"]);
    assert_eq!(ran, format!("hello /work ['start.py', 'a'] {listed}\n"));
    // The working directory is the place of the current one.
    let ran = output(&dir.path().join("data"), &["run", "--project", "..", "../start.py"]);
    assert_eq!(ran, "hello /work/data ['/work/start.py'] ['a.txt']\n");
    // Changes stay in the copies.
    let change = "open('data/a.txt', 'a').write('!'); open('new.txt', 'w').write('new')";
    output(dir.path(), &["run", "--project", ".", "--out", "out", "-c", change]);
    let mut written: Vec<_> = fs::read_dir(dir.path().join("out")).expect("a directory").flatten().collect();
    written.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = written.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["data", "new.txt"], "only files that the program has written");
    let text = |path: &str| fs::read_to_string(dir.path().join(path)).expect("it is there");
    assert_eq!((text("data/a.txt").as_str(), text("out/data/a.txt").as_str()), ("data", "data!"));
    // A directory that is granted hides the copies.
    let ran = output(
        dir.path(),
        &["run", "--project", ".", "--dir", "out:/work/data", "-c", "import os; print(os.listdir('data'))"],
    );
    assert!(ran.contains("new.txt") && !ran.contains("a.txt"), "{ran}");
}

/// A program with a copy of a project can be a tool of a package, and the files that were left out can run programs.
#[test]
fn p4_files_that_were_left_out_are_not_replaced() {
    let dir = folder();
    project(dir.path());
    fs::create_dir_all(dir.path().join(".venv/bin")).expect("a directory");
    fs::write(dir.path().join(".venv/bin/activate"), "ours").expect("it is ours");
    let names = [".env", "a.log", ".venv/bin/activate", ".hg/hgrc", "sub/.envrc", "new.txt", "helper.py"];
    let program = format!(
        "import os\nfor name in {names:?}:\n os.makedirs(os.path.dirname('/work/' + name), exist_ok=True)\n open(name, 'w').write('theirs')"
    );
    let ran = run_in(dir.path(), &["run", "--project", ".", "--out", ".", "-c", &program]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
    let written = names.map(|name| text(name).is_some_and(|text| text == "theirs"));
    assert_eq!(written, [false, false, false, false, false, true, true], "{}", ran.stderr_text());
    let expected = "did not write /work/a.log: the program had no copy of the existing file";
    assert!(ran.stderr_text().contains(expected), "{}", ran.stderr_text());
    // In a directory of the project, only names count, so that a second run can replace the files of the first.
    for _ in 0..2 {
        let ran = run_in(dir.path(), &["run", "--project", ".", "--out", "out", "-c", &program]);
        assert!(
            ran.stderr_text().contains("wrote ") && ran.stderr_text().contains("/out/a.log"),
            "{}",
            ran.stderr_text()
        );
        assert!(!dir.path().join("out/.env").exists() && !dir.path().join("out/sub/.envrc").exists());
    }
}

#[test]
fn left_out_files_are_listed() {
    let dir = folder();
    project(dir.path());
    let explained = output(dir.path(), &["explain", "--json", "--project", ".", "start.py"]);
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    let expected = json!([
        {"path": ".env", "reason": "it may be a secret"},
        {"path": "a.log", "reason": ".gitignore lists it"},
        {"path": "link", "reason": "it is a link"},
    ]);
    assert_eq!((&explained["project"]["left_out"], &explained["project"]["files"]), (&expected, &json!(7)));
    let explained = output(dir.path(), &["explain", "--project", ".", "start.py"]);
    assert!(explained.contains("\nleft out .env: it may be a secret\n"), "{explained}");
}

#[test]
fn directories_are_programs() {
    let dir = folder();
    fs::write(dir.path().join("package.json"), r#"{"main": "./lib/start"}"#).expect("it is ours");
    fs::create_dir(dir.path().join("lib")).expect("a directory");
    fs::write(dir.path().join("lib/start.js"), "console.log(require('./u').x, process.argv.slice(2))")
        .expect("it is ours");
    fs::write(dir.path().join("lib/u.js"), "exports.x = 1").expect("it is ours");
    assert_eq!(output(dir.path(), &["run", ".", "a"]), "1 [ 'a' ]\n");
    let tool = dir.path().join("tool");
    fs::create_dir(&tool).expect("a directory");
    fs::write(tool.join("__main__.py"), "import near; print(near.x)").expect("it is ours");
    fs::write(tool.join("near.py"), "x = 2").expect("it is ours");
    assert_eq!(output(dir.path(), &["run", "tool"]), "2\n");
    assert_eq!(output(dir.path(), &["run", "--project", ".", "tool"]), "2\n");
    let refused = run_in(dir.path(), &["run", "lib"]);
    assert_one_line(&refused, 125, "cannot run lib: it is a directory without __main__.py");
}

#[test]
fn modules_are_run_by_their_names() {
    let dir = folder();
    project(dir.path());
    let ran = output(dir.path(), &["run", "--timeout", "9s", "--project", ".", "-m", "app", "-q", "--json", "--", "x"]);
    assert_eq!(ran, "['-q', '--json', '--', 'x'] 3\n");
    let missed = run_in(dir.path(), &["run", "-m", "app", "x"]);
    let advice = "the program does not have app; copy the project with: codebox run --project . -m app x";
    assert!(missed.code == Some(1) && missed.stderr_text().contains(advice), "{}", missed.stderr_text());
    let inner = run_in(dir.path(), &["run", "-m", "app.inner"]);
    assert!(inner.stderr_text().contains("codebox run --project . -m app.inner"), "{}", inner.stderr_text());
    let report = output(dir.path(), &["run", "--json", "--project", ".", "-m", "app"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["results"], json!([]), "the variables of the module are no result");
    let tool = kit().codebox().args(["run", "-m", "json.tool", "--compact"]);
    let tool = run(tool.input(codebox_testkit::Input::Bytes(b"{\"a\": [1, 2]}".to_vec())));
    assert_eq!(tool.stdout_text().trim_end(), "{\"a\":[1,2]}", "{}", tool.stderr_text());
    for (args, message) in [
        (&["run", "-m", "a b"][..], "cannot run the module a b: it is not the name of a module"),
        (&["run", "--lang", "js", "-m", "app"], "cannot run the module app: only Python has modules"),
    ] {
        assert_one_line(&run_in(dir.path(), args), 125, message);
    }
}

#[test]
fn working_directories_are_chosen() {
    let dir = folder();
    fs::create_dir(dir.path().join("data")).expect("a directory");
    let show = "import os; print(os.getcwd())";
    for (option, expected) in [("/work/a/b", "/work/a/b"), ("a", "/work/a"), ("/tmp", "/tmp"), ("/work/", "/work")] {
        assert_eq!(output(dir.path(), &["run", "--workdir", option, "-c", show]), format!("{expected}\n"));
    }
    assert_eq!(output(dir.path(), &["run", "--dir", "data:/d", "--workdir", "/d", "-c", show]), "/d\n");
    let show = "console.log(process.cwd())";
    assert_eq!(output(dir.path(), &["run", "--workdir", "x", "--lang", "js", "-c", show]), "/work/x\n");
    for (args, message) in [
        (&["run", "--workdir", "/data", "-c", "1"][..], "cannot use the working directory /data"),
        (&["run", "--dir", "data:/d", "--workdir", "/d/x", "-c", "1"], "cannot use the working directory /d/x"),
    ] {
        assert_one_line(&run_in(dir.path(), args), 125, message);
    }
}

#[test]
fn projects_that_cannot_be_copied_are_refused() {
    let dir = folder();
    project(dir.path());
    std::os::unix::fs::symlink("app", dir.path().join("linked")).expect("it is ours");
    fs::create_dir(dir.path().join("large")).expect("a directory");
    fs::write(dir.path().join("large/package.json"), vec![b' '; 5 << 20]).expect("it is ours");
    let home =
        run(kit().codebox().env("HOME", dir.path()).folder(dir.path()).args(["run", "--project", ".", "-c", "1"]));
    assert!(home.stderr_text().contains("it is the home directory"), "{}", home.stderr_text());
    for (args, message) in [
        (&["run", "--project", "/", "start.py"][..], "cannot grant /: "),
        (&["run", "--project", "missing", "start.py"], "cannot grant missing: no such directory"),
        (&["run", "--project", "large", "-c", "1"], "cannot copy the project large: package.json is larger than 4 MiB"),
        (&["run", "--project", "start.py", "start.py"], "cannot grant start.py: it is not a directory"),
        (&["run", "--project", "linked", "-c", "1"], "cannot grant linked: "),
        (
            &["run", "--project", ".", "--dir", ".:/work", "start.py"],
            "cannot copy the project .: a directory is granted",
        ),
        (&["run", "--project", "app", "data"], "cannot run data: it is a directory outside of the project"),
        (
            &["run", "--project", ".", "--dir", "data:/work/app", "app/inner.py"],
            "cannot run app/inner.py: a granted directory is at its place in the project",
        ),
        (
            &["run", "--project", ".", "--dir", "data:/work/start.py", "start.py"],
            "cannot run start.py: a granted directory is at its place in the project",
        ),
        (
            &["run", "--project", ".", "--dir", "data:/work/start.py/x", "-c", "1"],
            "cannot copy the project .: a directory is granted at /work/start.py/x, below its file /work/start.py",
        ),
    ] {
        let refused = run_in(dir.path(), args);
        assert!(refused.code.is_some_and(|code| code == 125 || code == 126), "{args:?}: {}", refused.stderr_text());
        assert!(refused.stderr_text().contains(message), "{args:?}: {}", refused.stderr_text());
    }
}

#[test]
fn elements_and_aliases_follow_tsconfig() {
    let dir = folder();
    for (path, text) in [
        (
            "main.tsx",
            "import { Card } from '@ui/card';\nimport data from './data.json' with { type: 'json' };\n\
             const App = ({ n }: { n: number }) => <Card title={`n=${n}`}>{data.a}</Card>;\n\
             console.log(JSON.stringify(<App n={1} />));\n",
        ),
        ("src/ui/card.tsx", "export const Card = (props: object) => <div {...props}/>;\n"),
        (
            "src/jsx/runtime.ts",
            "export const jsx = (type: any, props: any) => typeof type === 'function' ? type(props) : { type, props };\n",
        ),
        ("data.json", r#"{"a": 5}"#),
        ("base.json", r#"{"compilerOptions": {"jsx": "react-jsx", "jsxImportSource": "@my"}}"#),
        (
            "tsconfig.json",
            "{ // a comment\n\"extends\": \"./base\", \"compilerOptions\": {\"paths\": \
             {\"@ui/*\": [\"./src/ui/*\"], \"@my/jsx-runtime\": [\"src/jsx/runtime.ts\"]},},\n}",
        ),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("it is ours");
    }
    let element = "{\"type\":\"div\",\"props\":{\"title\":\"n=1\",\"children\":5}}\n";
    assert_eq!(output(dir.path(), &["run", "--project", ".", "main.tsx"]), element);
    let own = "const React = { createElement: (type, props, child) => [type, props, child] };\nconsole.log(<a x=\"1\">text</a>)\n";
    fs::write(dir.path().join("own.jsx"), own).expect("it is ours");
    assert_eq!(output(dir.path(), &["run", "own.jsx"]), "[ 'a', { x: '1' }, 'text' ]\n");
}

#[test]
fn watched_programs_run_again_after_changes() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let dir = folder();
    project(dir.path());
    fs::write(dir.path().join("start.py"), "import helper\nprint(helper.hi(), flush=True)\n").expect("it is ours");
    let command = kit().codebox().args(["run", "--project", ".", "--watch", "start.py"]).folder(dir.path()).command();
    let mut command: Command = command;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    // A change that arrives in two parts may start the program twice.
    let mut last = String::new();
    let mut expect = |expected: &str| {
        let next = lines.by_ref().map(|line| line.expect("text")).find(|line| *line != last).expect("a line");
        assert_eq!(next, expected);
        last = next;
    };
    expect("hello");
    // Ignored files and copies that the program has do not start it.
    fs::create_dir(dir.path().join("__pycache__")).expect("a directory");
    fs::write(dir.path().join("__pycache__/a.pyc"), "").expect("it is ours");
    fs::write(dir.path().join("helper.py"), "def hi(): return 'changed'\n").expect("it is ours");
    expect("changed");
    // A run that has not ended is stopped.
    let endless = "import helper, time\nprint(helper.hi(), 'endless', flush=True)\nwhile True: time.sleep(1)\n";
    fs::write(dir.path().join("start.py"), endless).expect("it is ours");
    expect("changed endless");
    fs::write(dir.path().join("start.py"), "print('last', flush=True)\n").expect("it is ours");
    expect("last");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let refused = run_in(dir.path(), &["run", "--watch", "-c", "1"]);
    assert_one_line(&refused, 125, "cannot use --watch: the program has no files that could change");
    for out in [".", ".."] {
        let refused = run_in(dir.path(), &["run", "--watch", "--project", ".", "--out", out, "-c", "1"]);
        assert_one_line(&refused, 125, "cannot use --watch: --out has the watched files");
    }
}

#[test]
fn links_lead_out_of_no_project() {
    let dir = folder();
    let (inside, outside) = (dir.path().join("project"), dir.path().join("outside"));
    for (path, text) in [("project/b.py", "print('b')"), ("outside/__main__.py", "print('outside')")] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("it is ours");
    }
    std::os::unix::fs::symlink(outside.join("__main__.py"), inside.join("main.py")).expect("it is ours");
    std::os::unix::fs::symlink(&outside, inside.join("linked")).expect("it is ours");
    std::os::unix::fs::symlink(inside.join("b.py"), inside.join("c.py")).expect("it is ours");
    fs::write(outside.join("nb.ipynb"), "{\"nbformat\": 4, \"nbformat_minor\": 5, \"metadata\": {}, \"cells\": []}")
        .expect("it is ours");
    std::os::unix::fs::symlink(outside.join("nb.ipynb"), inside.join("nb.ipynb")).expect("it is ours");
    for file in ["main.py", "linked/__main__.py", "nb.ipynb"] {
        let refused = run_in(&inside, &["run", "--project", ".", file]);
        assert_one_line(&refused, 126, "a link leads out of the project");
    }
    assert_eq!(output(&inside, &["run", "--project", ".", "c.py"]), "b\n");
    assert_eq!(output(&inside, &["run", "--project", ".", "../outside/__main__.py"]), "outside\n");
    std::os::unix::fs::symlink("/dev/null", inside.join("uv.lock")).expect("it is ours");
    let refused = run_in(&inside, &["run", "--project", ".", "b.py"]);
    assert_one_line(&refused, 126, "uv.lock lists packages, and cannot be read: it is a link");
}

#[test]
fn programs_do_not_change_what_their_project_leaves_out() {
    let dir = folder();
    for (path, text) in [(".gitignore", "\u{feff}private.yaml\n"), ("private.yaml", "x"), ("sub/private.yaml", "x")] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("it is ours");
    }
    let change = "import os\nos.makedirs('sub', exist_ok=True)\nfor name in ('.gitignore', 'sub/.gitignore', 'sub/.GITIGNORE', 'kept'):\n    with open(name, 'w') as file: file.write('!private.yaml')";
    output(dir.path(), &["run", "--project", ".", "--out", ".", "-c", change]);
    assert!(dir.path().join("kept").exists() && !dir.path().join("sub/.gitignore").exists());
    let list = "import os\nprint(sorted(os.listdir()), os.path.exists('sub'))";
    let ran = output(dir.path(), &["run", "--project", ".", "-c", list]);
    assert_eq!(ran, "['.gitignore', 'kept'] False\n");
}

#[test]
fn the_audit_log_names_the_project_of_a_job() {
    let dir = folder();
    fs::write(dir.path().join("a.txt"), "text").expect("it is ours");
    let ran = run_in(dir.path(), &["run", "--json", "--project", ".", "-c", "1"]);
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let id = report["job_id"].as_str().expect("an id");
    let shown = run_in(dir.path(), &["audit", "show", id, "--json"]).stdout_text();
    let place = dir.path().canonicalize().expect("it is there");
    let granted = json!([{ "host": place, "guest": "/work", "access": "copy" }]);
    let document: Value = serde_json::from_str(&shown).expect("JSON");
    let grants = document["records"].as_array().into_iter().flatten().find_map(|record| record["event"].get("grants"));
    assert_eq!(grants.map(|grants| &grants["dirs"]), Some(&granted), "{shown}");
}
