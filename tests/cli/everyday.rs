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
fn texts_import_files_of_the_working_directory() {
    let dir = folder();
    fs::write(dir.path().join("a.mjs"), "export default 5").expect("it is ours");
    fs::write(dir.path().join("b.cjs"), "module.exports = 6").expect("it is ours");
    fs::write(dir.path().join("c.py"), "x = 7").expect("it is ours");
    let module = "import a from './a.mjs'; console.log(a, (await import('./b.cjs')).default, import.meta.dirname, import.meta.resolve('./x'))";
    let bun = "import x from './a.mjs'; console.log(x, import.meta.dir, import.meta.path === import.meta.filename)";
    let script = "console.log(require('./b.cjs'), require.resolve('./b.cjs'), __dirname)";
    for (language, text, expected) in [
        ("js", module, "5 6 /work file:///work/x\n"),
        ("ts", module, "5 6 /work file:///work/x\n"),
        ("js", bun, "5 /work true\n"),
        ("js", script, "6 /work/b.cjs .\n"),
        (
            "js",
            "console.log(`8` / 2, ((a = `8` / 2) => a)(), ((text, pattern =\n// like `x`\n/[)]/) => pattern.test(text))(')'), `${/[`]/.test('`')}` / 1); console.log(require('./a.mjs').default)",
            "4 4 true NaN\n5\n",
        ),
        ("ts", "console.log(import.meta.main)", "true\n"),
        ("python", "import c; print(c.x)", "7\n"),
    ] {
        let ran = run_in(dir.path(), &["run", "--dir", ".", "--lang", language, "-c", text]);
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), expected), "{}", ran.stderr_text());
    }
    let ran = run_in(dir.path(), &["run", "--json", "--lang", "js", "-c", "await 1\nnull.x"]);
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(report["error"]["frames"][0]["file"], "<string>", "{report}");
}

#[test]
fn the_first_event_loop_is_made_when_it_is_needed() {
    let program = "import asyncio\nasync def five(): return 5\nloop = asyncio.get_event_loop()\nprint(loop.run_until_complete(five()), loop is asyncio.get_event_loop(), asyncio.run(five()))\ntry:\n    asyncio.get_event_loop()\nexcept RuntimeError: print('none')";
    for options in [&[][..], &["--image", "python-data"]] {
        let ran = run_in(folder().path(), &[&["run", "--isolation", "wasm"], options, &["-c", program]].concat());
        // As in Python 3.13: the end of `asyncio.run` leaves no loop.
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "5 True 5\nnone\n"), "{}", ran.stderr_text());
    }
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
fn failures_that_programs_handle_are_followed_by_advice() {
    let dir = folder();
    let advice = |options: &[&str], name: &str, text: &str| {
        fs::write(dir.path().join(name), text).expect("it is ours");
        let ran = run_in(dir.path(), &[&["run", "--isolation", "wasm"], options, &[name]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
        ran.stderr_text()
    };
    fs::write(dir.path().join("data.txt"), "text").expect("it is ours");
    fs::write(dir.path().join(".env"), "A=1").expect("it is ours");
    let write = "open('out.txt', 'w').write('x')";
    let caught = "try:\n    open('out.txt', 'w')\nexcept OSError as error:\n    print(error)";
    let beside = "import pathlib\nprint((pathlib.Path(__file__).parent / 'data.txt').exists())";
    let replaces = "import os\nif os.path.exists('data.txt'): os.remove('data.txt')\nopen('data.txt', 'w').write('x')";
    for (options, name, text, part) in [
        (
            &[][..],
            "a.py",
            "import os\nprint(os.path.exists('data.txt'))",
            "not granted data.txt; grant it with: codebox run --dir .",
        ),
        (
            &[],
            "b.ts",
            "import fs from 'fs'; console.log(fs.existsSync('data.txt'))",
            "not granted data.txt; grant it with: codebox run --dir .",
        ),
        (&[], "c.py", beside, "not granted data.txt; grant it with: codebox run --dir ."),
        (&[], "d.py", "import glob\nprint(glob.glob('*.txt'))", "the program lists its working directory"),
        (&[], "e.py", write, "discarded \"out.txt\" that the program has left"),
        (&["--dir", "."], "f.py", caught, "may not write \"out.txt\"; grant the current directory with --dir .:rw"),
    ] {
        let stderr = advice(options, name, text);
        assert!(stderr.contains(part), "{name}: {stderr}");
    }
    for (options, name, text) in [
        (&["--dir", ".:rw"][..], "g.py", write),
        (&["--out", "kept"], "h.py", "import os\nos.listdir('.')\nopen('o', 'w').close()"),
        (&[], "i.py", "import os\nprint(os.path.exists('.env'), os.path.exists('none.ini'))"),
        (&[], "j.py", "import tempfile\nwith tempfile.NamedTemporaryFile() as file: file.write(b'x')"),
        (&["--dir", "."], "k.py", "import glob\nprint(glob.glob('*.txt'))"),
    ] {
        let stderr = advice(options, name, text);
        assert!(
            !["granted", "discarded", "lists", "may not"].iter().any(|word| stderr.contains(word)),
            "{name}: {stderr}"
        );
    }
    let figure = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()";
    assert!(advice(&[], "m.py", figure).contains("with --show"));
    assert!(advice(&[], "l.py", replaces).contains("discarded \"data.txt\""), "it has made the file itself");
}

#[test]
fn advice_names_nothing_that_is_private() {
    let dir = folder();
    for name in [".env", "id_rsa", "secrets.toml", "plain.txt"] {
        fs::write(dir.path().join(name), "secret").expect("it is ours");
    }
    let lines = |options: &[&str], text: &str| {
        fs::write(dir.path().join("a.py"), text).expect("it is ours");
        run_in(dir.path(), &[&["run", "--isolation", "wasm"], options, &["a.py"]].concat()).stderr_text()
    };
    for (text, line) in [
        ("raise FileNotFoundError(2, 'No such file or directory', '.env')", None),
        ("try: open('id_rsa')\nexcept OSError: pass", None),
        ("open('secrets.toml')", None),
        ("raise PermissionError(1, 'x', '.git/hooks/pre-commit')", None),
        ("open('plain.txt')", Some("not granted plain.txt")),
    ] {
        let shown = lines(&[], text);
        let advised = shown.lines().find(|line| line.contains("--dir"));
        assert_eq!(advised.is_some(), line.is_some(), "{text}: {shown}");
        assert!(line.is_none_or(|line| shown.contains(line)), "{text}: {shown}");
    }
    // A rename has two names, and a directory that is granted does not permit everything.
    let renames = lines(&["--dir", "."], "import os; os.rename('plain.txt', 'b.txt')");
    assert!(renames.contains("may not write \"plain.txt\"; grant the current directory with --dir .:rw"), "{renames}");
    let links = lines(&["--dir", ".:rw"], "import os; os.symlink('/etc/passwd', 'link')");
    assert!(!links.contains("may not write"), "{links}");
    for (host, is_warned) in [("169.254.169.254", true), ("10.0.0.1", true), ("example.com", false)] {
        let shown = lines(&[], &format!("import urllib.request; urllib.request.urlopen('http://{host}/')"));
        assert!(shown.contains(&format!("--net {host}")), "{shown}");
        assert_eq!(shown.contains("grant it only if you know what answers there"), is_warned, "{shown}");
    }
}

#[test]
fn versions_are_those_of_the_language_of_the_program() {
    let dir = folder();
    fs::write(dir.path().join("a.py"), "print(1)").expect("it is ours");
    for args in [&["run", "--node", "22", "a.py"][..], &["run", "--python", "3.12", "--lang", "js", "-c", "1"]] {
        let refused = run_in(dir.path(), args);
        assert_eq!(refused.code, Some(125), "{args:?}");
        assert!(refused.stderr_text().contains("the program is in "), "{args:?}: {}", refused.stderr_text());
    }
}

#[test]
fn messages_after_output_in_one_file_begin_a_line() {
    let dir = folder();
    let binary = kit().binary().display().to_string();
    let line = format!("'{binary}' run --isolation wasm --max-output 10 -c 'print(\"x\" * 100)' 2>&1");
    let mut shell = std::process::Command::new("sh");
    let shown = shell.args(["-c", &line]).current_dir(dir.path()).env("CODEBOX_HOME", kit().home()).output();
    let shown = String::from_utf8(shown.expect("it starts").stdout).expect("text");
    assert!(shown.lines().any(|line| line.starts_with("codebox: stdout was truncated")), "{shown}");
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

#[test]
fn notebooks_run_in_one_session() {
    let dir = folder();
    let code = |source: &str| serde_json::json!({"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let save = |name: &str, cells: &[&str]| {
        let cells: Vec<Value> = cells.iter().map(|source| code(source)).collect();
        let notebook = serde_json::json!({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells});
        fs::write(dir.path().join(name), notebook.to_string()).expect("it is ours");
    };
    save("nb.ipynb", &["%matplotlib inline\nx = 20", "print('out')\nx + 1", "", "1 / 0", "print('never')"]);
    let ran = run_in(dir.path(), &["run", "--out", "nb.out.ipynb", "nb.ipynb"]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(1), "out\n21\n"), "{}", ran.stderr_text());
    assert!(ran.stderr_text().contains("cell 4 failed; cells that were not run: 1"), "{}", ran.stderr_text());
    let refused = run_in(dir.path(), &["run", "nb.ipynb", "--out", "other.ipynb"]);
    let message = "write options of codebox before the notebook";
    assert!(refused.code == Some(125) && refused.stderr_text().contains(message), "{}", refused.stderr_text());
    assert!(!dir.path().join("other.ipynb").exists());
    let written = fs::read(dir.path().join("nb.out.ipynb")).expect("it was written");
    let written: Value = serde_json::from_slice(&written).expect("JSON");
    let cells = written["cells"].as_array().expect("cells");
    let counts: Vec<&Value> = cells.iter().map(|cell| &cell["execution_count"]).collect();
    assert_eq!(serde_json::json!(counts), serde_json::json!([1, 2, null, 3, null]));
    let outputs = cells[1]["outputs"].as_array().expect("outputs");
    assert_eq!(outputs[0]["text"], serde_json::json!(["out\n"]));
    assert_eq!(outputs[1]["data"]["text/plain"], serde_json::json!(["21"]));
    assert_eq!(cells[3]["outputs"][0]["ename"], "ZeroDivisionError", "{}", cells[3]);
    assert_eq!(cells[3]["outputs"].as_array().map(Vec::len), Some(1), "{}", cells[3]);
    // A link could lead to another file of the user.
    std::os::unix::fs::symlink("nb.ipynb", dir.path().join("link.ipynb")).expect("it is ours");
    for (out, part) in [("link.ipynb", "symbolic link"), ("nb.json", "ends with .ipynb")] {
        let refused = run_in(dir.path(), &["run", "--out", out, "nb.ipynb"]);
        assert!(
            refused.code.is_some_and(|code| code >= 125) && refused.stderr_text().contains(part),
            "{}",
            refused.stderr_text()
        );
    }
    save("ipython.ipynb", &["!pip install x"]);
    let failed = run_in(dir.path(), &["run", "ipython.ipynb"]);
    assert!(failed.stderr_text().contains("is a command of IPython"), "{}", failed.stderr_text());
}

#[test]
fn databases_in_read_only_directories_are_read() {
    let dir = folder();
    fs::write(dir.path().join("in.sql"), "x").expect("it is ours");
    let make = "import sqlite3\nfor name in ('a b.db', 'log.db'):\n    c = sqlite3.connect(name)\n    c.execute('create table t(x)')\n    c.execute('insert into t values (7)')\n    c.commit()\nb = bytearray(open('log.db', 'rb').read())\nb[18:20] = b'\\2\\2'\nopen('log.db', 'wb').write(b)";
    let made = run_in(dir.path(), &["run", "--dir", ".:rw", "-c", make]);
    assert_eq!(made.code, Some(0), "{}", made.stderr_text());
    let read = "import pathlib, sqlite3\nfor name, options in (('a b.db', {}), (pathlib.Path('a b.db'), {}), ('file:a%20b.db?mode=ro', {'uri': True}), ('log.db', {})):\n    c = sqlite3.connect(name, **options)\n    print(c.execute('select * from t').fetchall())\ntry:\n    c.execute('insert into t values (8)')\nexcept sqlite3.OperationalError as error:\n    print(error)\ntry:\n    sqlite3.connect('missing.db').execute('select 1 from t')\nexcept sqlite3.OperationalError as error:\n    print(error)";
    let ran = run_in(dir.path(), &["run", "--dir", ".", "-c", read]);
    let rows = "[(7,)]\n".repeat(4);
    let expected = format!("{rows}attempt to write a readonly database\nunable to open database file\n");
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), expected.as_str()), "{}", ran.stderr_text());
}

#[test]
fn programs_for_other_runners_of_javascript_have_advice() {
    let dir = folder();
    for (name, text, message) in [
        ("npm.mjs", "import x from 'npm:left-pad@1.3.0'", "add its package with --with left-pad@1.3.0,"),
        ("bare.cjs", "require('left-pad')", "add its package with --with left-pad,"),
        (
            "esm.mjs",
            "import x from 'left-pad'",
            "the module left-pad; it is not part of the runtime: add its package with --with left-pad,",
        ),
        (
            "jsr.ts",
            "import { x } from 'jsr:@std/path'\nconsole.log(x)",
            "with --net for each host of its imports: codebox run --image denoland/deno --dir .:rw -- deno run -A jsr.ts",
        ),
        ("url.mjs", "import 'https://deno.land/std/path/mod.ts'", "-- deno run -A url.mjs"),
        ("api.ts", "console.log(Deno.args)", "codebox run --image denoland/deno --dir .:rw -- deno run -A api.ts"),
        (
            "bun.ts",
            "import { $ } from 'bun'\nconsole.log($)",
            "codebox run --image oven/bun --dir .:rw -- bun run bun.ts",
        ),
        ("sqlite.ts", "import { Database } from 'bun:sqlite'\nconsole.log(Database)", "-- bun run sqlite.ts"),
        ("file.ts", "console.log(Bun.file('x'))", "-- bun run file.ts"),
        ("package.ts", "import chalk from 'chalk'\nconsole.log(chalk, Bun.argv)", "-- bun run package.ts"),
        (
            "words.mjs",
            "// See https://bun.sh/guides, Bun.serve and deno.json\nimport x from 'left-pad'\nconsole.log(x, 'Deno.land')",
            "--with left-pad,",
        ),
        ("scope.ts", "import { join } from '@std/path'\nconsole.log(join)", "-- deno run -A scope.ts"),
        ("ask.ts", "console.log(prompt('name'))", "-- deno run -A ask.ts"),
        ("both.ts", "import x from 'left-pad'\nif (typeof Deno !== 'undefined') Deno.exit(x)", "--with left-pad,"),
    ] {
        fs::write(dir.path().join(name), text).expect("it is ours");
        let ran = run_in(dir.path(), &["run", "--isolation", "wasm", name]);
        let stderr = ran.stderr_text();
        assert!(ran.code == Some(1) && stderr.contains(message), "{name}: {stderr}");
    }
    // A module that is there is found by the name in the import.
    fs::create_dir_all(dir.path().join("node_modules/@a/b")).expect("a directory");
    fs::write(dir.path().join("node_modules/@a/b/index.js"), "module.exports = 7").expect("it is ours");
    fs::write(dir.path().join("own.mjs"), "import x from 'npm:@a/b@^2'\nconsole.log(x)").expect("it is ours");
    let ran = run_in(dir.path(), &["run", "--dir", ".", "own.mjs"]);
    assert_eq!(ran.stdout_text(), "7\n", "{}", ran.stderr_text());
}

#[test]
fn modules_in_typescript_have_the_names_of_commonjs() {
    let dir = folder();
    fs::write(dir.path().join("data.json"), "[1]").expect("it is ours");
    let text = "import { join } from 'path'\nimport { readFileSync } from 'fs'\nconst os: any = require('os')\n\
                if (require.main === module) console.log(readFileSync(join(__dirname, 'data.json'), 'utf8'), __filename, typeof os.EOL)\n\
                import('./other.ts').then(other => console.log(other.isMain))\n";
    fs::write(dir.path().join("tool.ts"), text).expect("it is ours");
    fs::write(dir.path().join("other.ts"), "export const isMain: boolean = require.main === module")
        .expect("it is ours");
    let ran = run_in(dir.path(), &["run", "--dir", ".", "tool.ts"]);
    let expected = "[1] /work/tool.ts string\nfalse\n";
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), expected), "{}", ran.stderr_text());
}

/// Program in WebAssembly that writes its second argument and the first bytes of `in.txt` to `out.txt`, and exits with the status 3.
const COPIES: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "in.txt") (data (i32.const 32) "work/out.txt")
  (func $check (param i32) (if (local.get 0) (then (call $exit (i32.add (i32.const 50) (local.get 0))))))
  (func (export "_start") (local $at i32) (local $len i32)
    (call $check (call $sizes (i32.const 0) (i32.const 4)))
    (call $check (call $args (i32.const 1024) (i32.const 2048)))
    ;; A relative path, as libraries pass it, and one below a mounted directory.
    (call $check (call $open (i32.const 3) (i32.const 1) (i32.const 16) (i32.const 6) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 8)))
    (i32.store (i32.const 64) (i32.const 4096)) (i32.store (i32.const 68) (i32.const 100))
    (call $check (call $read (i32.load (i32.const 8)) (i32.const 64) (i32.const 1) (i32.const 72)))
    (i32.store (i32.const 68) (i32.load (i32.const 72)))
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 32) (i32.const 12) (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 8)))
    (call $check (call $write (i32.load (i32.const 8)) (i32.const 64) (i32.const 1) (i32.const 72)))
    (local.set $at (i32.load (i32.const 1028)))
    (loop $next (br_if $next (i32.load8_u (i32.add (local.get $at) (local.tee $len (i32.add (local.get $len) (i32.const 1)))))))
    (i32.store (i32.const 64) (local.get $at)) (i32.store (i32.const 68) (local.get $len))
    (call $check (call $write (i32.const 1) (i32.const 64) (i32.const 1) (i32.const 72)))
    (call $exit (i32.const 3))))"#;

#[test]
fn programs_in_webassembly_are_run() {
    let dir = folder();
    let save = |name: &str, text: &str| {
        fs::write(dir.path().join(name), wat::parse_str(text).expect("a program")).expect("it is ours");
    };
    save("copy.wasm", COPIES);
    fs::write(dir.path().join("in.txt"), "content").expect("it is ours");
    let ran = run_in(dir.path(), &["run", "--dir", ".:rw", "copy.wasm", "argument", "rest"]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(3), "argument"), "{}", ran.stderr_text());
    assert_eq!(fs::read_to_string(dir.path().join("out.txt")).expect("it was written"), "content");
    // Without a grant, the directory of the program is empty: 44 is the error for a missing file.
    let ran = run_in(dir.path(), &["run", "copy.wasm", "argument"]);
    assert_eq!(ran.code, Some(50 + 44), "{}", ran.stderr_text());
    let denied = run_in(dir.path(), &["run", "--dir", ".", "copy.wasm", "argument"]);
    assert!(denied.code.is_some_and(|code| code > 50), "{}", denied.stderr_text());
    let explained = run_in(dir.path(), &["explain", "copy.wasm"]).stdout_text();
    assert!(!explained.contains("also suitable") && explained.contains("tier wasm: chosen"), "{explained}");
    save("loop.wasm", "(module (func (export \"_start\") (loop (br 0))))");
    let report = json(dir.path(), &["run", "--json", "--timeout", "1s", "loop.wasm"]);
    assert_eq!(
        (&report["kind"], &report["provenance"]["isolation"]),
        (&"timeout_wall".into(), &"wasm".into()),
        "{report}"
    );
    save(
        "grow.wasm",
        "(module (memory 1) (func (export \"_start\") (if (i32.eq (memory.grow (i32.const 8192)) (i32.const -1)) (then unreachable))))",
    );
    assert_eq!(json(dir.path(), &["run", "--json", "--memory", "64M", "grow.wasm"])["kind"], "memory_limit");
    assert_eq!(json(dir.path(), &["run", "--json", "--memory", "1G", "grow.wasm"])["kind"], "ok");
    save("trap.wasm", "(module (func (export \"_start\") unreachable))");
    assert_eq!(json(dir.path(), &["run", "--json", "trap.wasm"])["kind"], "guest_error");
    for (status, code) in [("i32.const 0", 0), ("i32.const 1", 1)] {
        // A component, whose function returns a result without values.
        let component = format!(
            "(component (core module $m (func (export \"run\") (result i32) ({status}))) (core instance $i (instantiate $m))\n\
             (func $run (result (result)) (canon lift (core func $i \"run\"))) (instance $r (export \"run\" (func $run)))\n\
             (export \"wasi:cli/run@0.2.0\" (instance $r)))"
        );
        save("component.wasm", &component);
        let ran = run_in(dir.path(), &["run", "component.wasm"]);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr_text());
    }
    save("library.wasm", "(module (func (export \"f\")))");
    save("other.wasm", "(module (import \"env\" \"f\" (func)) (func (export \"_start\")))");
    fs::write(dir.path().join("text.wasm"), "print(1)").expect("it is ours");
    for (name, reason) in [
        ("library.wasm", "it exports no function _start"),
        ("other.wasm", "it imports f of env"),
        ("text.wasm", "it is not WebAssembly in binary form"),
    ] {
        let refused = run_in(dir.path(), &["run", name]);
        assert!(refused.code == Some(125) && refused.stderr_text().contains(reason), "{}", refused.stderr_text());
    }
    let refused = run_in(dir.path(), &["run", "--isolation", "container", "copy.wasm"]);
    assert_eq!(refused.code, Some(125), "{}", refused.stderr_text());
}

fn json(dir: &std::path::Path, args: &[&str]) -> Value {
    let ran = run_in(dir, args);
    serde_json::from_str(&ran.stdout_text()).unwrap_or_else(|_| panic!("{args:?}: {}", ran.stderr_text()))
}
