//! Cells in JavaScript and TypeScript.

use codebox::{Outcome, Request};

use crate::support::{Home, PLACES, TestSession};

#[test]
fn cells_share_their_state() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::javascript(""));
        assert_eq!(session.ok("let x = 41"), (String::new(), None));
        assert_eq!(session.ok("console.log('out'); x + 1"), ("out\n".to_owned(), Some("42".to_owned())));
        session
            .ok("const c = 1; class A { f() { return x } }\nfunction g() { return new A().f() + c }\nvar v = [1, 2]");
        assert_eq!(session.value("g()"), "42");
        assert_eq!(session.value("({ v, g: typeof g })"), "{ v: [ 1, 2 ], g: 'function' }");
        assert_eq!(session.value("'text'"), "'text'");
        assert_eq!(session.ok("undefined"), (String::new(), None));
        session.ok("require('fs').writeFileSync('f', 'text')");
        assert_eq!(session.value("require('node:fs').readFileSync('/work/f', 'utf8')"), "'text'");
        assert_eq!(session.value("path.join('a', 'b')"), "'a/b'");
    }
}

#[test]
fn names_can_be_declared_again() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::javascript(""));
        for (declared, value) in [
            ("let x = 1", "1"),
            ("const x = 2", "2"),
            ("class x {}\nx.y = 3", "[class x] { y: 3 }"),
            ("var x = 4", "4"),
            ("function x() {}", "[Function: x]"),
            ("let [x, y] = [6, 7]", "6"),
            ("const { x, z } = { x: 8, z: 9 }", "8"),
        ] {
            session.ok(declared);
            assert_eq!(session.value("x"), value, "{declared}");
        }
        assert_eq!(session.value("y + z"), "16");
        // Within one cell, it is an error, and the state stays.
        let report = session.exec("let x = 1; let x = 2");
        assert_eq!(report.error.map(|error| error.name).as_deref(), Some("SyntaxError"));
        let report = session.exec("const undefined = 1");
        assert!(!report.is_success() && report.is_kept());
        assert_eq!(session.value("x"), "8");
        // A cell that fails after its declarations has declared them.
        assert!(!session.exec("let w = 1; throw new Error('no')").is_success());
        assert_eq!(session.value("w"), "1");
        session.ok("const w = 2");
    }
}

#[test]
fn cells_await_and_import() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::javascript(""));
        assert_eq!(session.value("await Promise.resolve(5)"), "5");
        session.ok(
            "const later = (n) => new Promise((done) => setTimeout(() => done(n), 5))\nconst seven = await later(7)",
        );
        assert_eq!(session.value("seven + await later(1)"), "8");
        session.ok("import fs, { readFileSync as read } from 'node:fs';\nimport * as os from 'os'\nimport 'node:path'");
        assert_eq!(session.value("[fs.readFileSync === read, typeof os.cpus]"), "[ true, 'function' ]");
        session.ok("import {\n  join,\n  basename\n} from 'node:path'\nexport const joined = join('a', 'b')");
        assert_eq!(session.value("joined"), "'a/b'");
        // A text that only looks like an import stays.
        assert_eq!(session.value("`\nimport x from 'y'`"), "\"\\nimport x from 'y'\"");
        // Timers end before their cell does.
        assert_eq!(
            session.ok("setTimeout(() => console.log('later'), 5); 1"),
            ("later\n".to_owned(), Some("1".to_owned()))
        );
        let report = session.exec("import { nothing } from 'node:nosuch'");
        assert!(!report.is_success() && report.is_kept(), "{report:?}");
    }
}

#[test]
fn errors_end_their_cell_alone() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::javascript(""));
        session.ok("let x = 1\nfunction f() {\n  throw new TypeError('no')\n}");
        let cells = [
            ("x = 2\nf()", "TypeError", Some(2)),
            ("await Promise.reject(new RangeError('r'))", "RangeError", Some(1)),
            ("\nPromise.reject(new Error('later'))", "Error", Some(2)),
            ("let a b", "SyntaxError", None),
        ];
        for (cell, name, line) in cells {
            let report = session.exec(cell);
            assert!(report.is_kept() && report.outcome == Outcome::Exited(1), "{cell}: {report:?}");
            let error = report.error.expect("an error");
            assert_eq!(error.name, name, "{cell}");
            if line.is_some() {
                assert_eq!(error.line, line, "{cell}: {error:?}");
            }
        }
        let report = session.exec("console.log('x'); process.exit(3)");
        assert!(report.is_kept() && report.outcome == Outcome::Exited(3), "{report:?}");
        assert_eq!(session.value("x"), "2");
        assert!(session.ok("process.exitCode = 0; performance.now() > 0").0.is_empty());
    }
}

#[test]
fn typescript_cells_lose_their_types() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::typescript(""));
        session.ok("interface P { x: number }\nconst p: P = { x: 41 }\nenum E { A = 1 }");
        assert_eq!(session.value("(p as P).x + E.A"), "42");
        session.ok("import type { Stats } from 'node:fs'\nimport { statSync } from 'node:fs'\nconst s: Stats = statSync('/work')");
        assert_eq!(session.value("s.isDirectory()"), "true");
        let report = session.exec("const n: number = (null as any).x");
        assert_eq!(report.error.map(|error| error.name).as_deref(), Some("TypeError"));
    }
}

#[test]
fn states_are_saved_and_forked() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::javascript(""));
        session.ok("let x = 1; const big = new Uint8Array(8 << 20).fill(7); const before = performance.now()\nfunction sum() { return big.reduce((a, b) => a + b, x) }");
        let saved = home.wait(session.session.checkpoint("c")).expect("a checkpoint");
        session.ok("x = 2; big.fill(0)");
        home.wait(session.session.restore(&saved)).expect("it is restored");
        assert_eq!(session.value("[sum(), performance.now() >= before]"), "[ 58720257, true ]");
        let forks = home.wait(session.session.fork(2)).expect("forks");
        let drawn: Vec<String> = forks
            .into_iter()
            .map(|session| {
                TestSession { home: &home, session }.value("`${sum()} ${Math.random()} ${crypto.randomUUID()}`")
            })
            .collect();
        assert!(drawn[0] != drawn[1] && drawn.iter().all(|one| one.starts_with("'58720257 ")), "{drawn:?}");
    }
}
