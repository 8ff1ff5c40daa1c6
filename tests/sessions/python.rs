//! Cells in Python.

use std::time::Duration;

use codebox::{
    BoxSettings, Cell, GuestPath, InputFile, Limit, LimitKind, LimitOverrides, Outcome, OutputShape, Request,
    ResultKind, Stdin,
};

use crate::support::{Home, PLACES, Place, value};

#[test]
fn cells_share_their_state() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        assert_eq!(session.ok("x = 41"), (String::new(), None));
        assert_eq!(session.ok("print('out')\nx + 1"), ("out\n".to_owned(), Some("42".to_owned())));
        assert_eq!(session.value("_ + 1"), "43");
        session.ok("import json, math\nclass A:\n    def f(self): return math.floor(x / 2)\ndef g(): return A().f()");
        assert_eq!(session.value("g()"), "20");
        assert_eq!(session.value("__name__, __import__('__main__').x"), "('__main__', 41)");
        // A semicolon hides the value, as in a notebook.
        assert_eq!(session.ok("x;"), (String::new(), None));
        assert_eq!(session.value("import pickle\npickle.loads(pickle.dumps(A())).f()"), "20");
        session.ok("open('f', 'w').write('text')");
        assert_eq!(session.value("open('/work/f').read()"), "'text'");
    }
}

#[test]
fn exceptions_end_their_cell_alone() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("x = 1\ndef f(n):\n    return 1 / n");
        let report = session.exec("x = 2\nf(0)");
        assert!(report.is_kept() && report.outcome == Outcome::Exited(1), "{report:#?}");
        let error = report.error.expect("an error");
        assert_eq!((error.name.as_str(), error.line), ("ZeroDivisionError", Some(2)));
        let frames: Vec<_> = error.frames.iter().map(|frame| (frame.file.as_str(), frame.line)).collect();
        assert_eq!(frames, [("<cell 2>", 2), ("<cell 1>", 3)]);
        let text = report.stderr.to_text_lossy();
        assert!(text.contains("File \"<cell 1>\", line 3, in f\n    return 1 / n"), "{text}");
        assert!(!text.contains("codebox") && !text.contains("eval"), "{text}");
        let report = session.exec("def broken(:");
        let name = report.error.as_ref().map(|error| error.name.as_str());
        assert_eq!(name, Some("SyntaxError"), "{:?} {}", report.outcome, report.stderr.to_text_lossy());
        let report = session.exec("import sys; sys.exit(3)");
        assert!(report.is_kept() && report.outcome == Outcome::Exited(3), "{report:#?}");
        assert_eq!(session.value("x"), "2");
    }
}

#[test]
fn cells_await() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("import asyncio\nasync def double(n):\n    await asyncio.sleep(0.001)\n    return 2 * n");
        assert_eq!(session.value("await double(21)"), "42");
        session.ok("task = asyncio.create_task(double(5)); queue = asyncio.Queue()\nawait asyncio.sleep(0)");
        assert_eq!(session.value("await task"), "10");
        session.ok("await queue.put(1)");
        assert_eq!(session.value("await queue.get()"), "1");
    }
}

#[test]
fn limits_end_the_interpreter() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("x = 1");
        let limits = LimitOverrides { wall: Some(Limit::At(Duration::from_millis(200))), ..LimitOverrides::default() };
        let cell = Cell { limits, ..Cell::from("while True: pass") };
        let report = session.exec(cell);
        assert_eq!(report.outcome, Outcome::LimitHit(LimitKind::Wall));
        assert!(!report.is_kept());
        let report = session.exec("'x' in globals()");
        assert_eq!(value(&report).as_deref(), Some("False"));
        let limits = LimitOverrides { memory: Some(Limit::Unlimited), ..LimitOverrides::default() };
        let refused = home.wait(session.session.exec(Cell { limits, ..Cell::from("1") })).expect_err("an error");
        assert!(refused.message().contains("wall time, processor time and output only"), "{refused}");
    }
}

#[test]
fn cells_have_input_and_files_of_their_own() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        let with_input = |text: &str, input: &str| Cell { stdin: Stdin::Bytes(input.into()), ..Cell::from(text) };
        let read = |cell: Cell| value(&session.exec(cell));
        assert_eq!(read(with_input("input() + input()", "a\nb\nunread\n")).as_deref(), Some("'ab'"));
        // The unread rest of the input is not the input of the next cell.
        assert_eq!(read(with_input("import sys; sys.stdin.read()", "next")).as_deref(), Some("'next'"));
        assert_eq!(read(Cell::from("sys.stdin.read()")).as_deref(), Some("''"));
        let file = |path: &str, content: &str| InputFile::new(GuestPath::new(path).expect("a path"), content.into());
        let with_file = |text: &str, file| Cell { files: vec![file], ..Cell::from(text) };
        let first = with_file("open('a/b.txt').read()", file("/work/a/b.txt", "one"));
        assert_eq!(read(first).as_deref(), Some("'one'"));
        let second = with_file("open('a/b.txt').read()", file("/work/a/b.txt", "two"));
        assert_eq!(read(second).as_deref(), Some("'two'"));
        // A link that an earlier cell has left is replaced, and a directory of the library cannot be written.
        session.ok("import os; os.symlink('a', 'link')");
        assert_eq!(read(with_file("open('link').read()", file("/work/link", "three"))).as_deref(), Some("'three'"));
        for path in ["/lib/x", "/work", "/etc/passwd"] {
            let refused = home.wait(session.session.exec(with_file("1", file(path, "")))).expect_err("a refusal");
            assert!(refused.message().contains(path), "{refused}");
        }
        assert_eq!(session.value("os.path.exists('link')"), "True");
    }
}

/// Settings of single runs are refused instead of ignored.
#[test]
fn output_limits_of_runs_are_refused() {
    let home = Home::new();
    let runner = home.runner(Place::ThisProcess);
    let request = || Request { output_shape: Some(OutputShape::default()), ..Request::python("") };
    let session = home.wait(runner.session(request())).err().expect("it is refused");
    let command_box = home.wait(runner.start_box(request(), BoxSettings::default())).err().expect("it is refused");
    for (error, what) in [(session, "a session"), (command_box, "a box")] {
        assert_eq!(error.kind(), ResultKind::InvalidRequest);
        assert!(error.message().contains(&format!("{what} takes no `output_shape`")), "{}", error.message());
    }
}
