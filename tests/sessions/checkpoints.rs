//! Saved states of sessions: checkpoints, forks and parked sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use codebox::{Cell, Language, Limit, LimitOverrides, Request, Session};
use codebox_testkit::soak;

use crate::support::{Home, PLACES, TestSession, value};

/// Fills a session with state of several kinds.
const STATE: &str = "\
import json, random, time, tempfile, uuid
import numpy as np
class Point:
    def __init__(self, x): self.x = x
points = [Point(i) for i in range(1000)]
text = 'a' * (20 << 20)
array = np.arange(1_000_000)
with open('data.json', 'w') as file: json.dump([1, 2], file)
def check():
    return points[999].x, len(text), int(array[-1]), json.load(open('/work/data.json'))
before = time.monotonic()
check()";

const CHECKED: &str = "(999, 20971520, 999999, [1, 2])";

#[test]
fn states_are_restored() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        assert_eq!(session.value(STATE), CHECKED);
        let first = home.wait(session.session.checkpoint("first")).expect("a checkpoint");
        session.ok("points.clear(); text = 'b'; array[-1] = 0; open('data.json', 'w').write('[3]'); new = 1");
        let second = home.wait(session.session.checkpoint("second")).expect("a checkpoint");
        for _ in 0..2 {
            home.wait(session.session.restore(&first)).expect("it is restored");
            assert_eq!(session.value("check(), 'new' in globals()"), format!("({CHECKED}, False)"));
            assert_eq!(session.value("0 <= time.monotonic() - before < 1000"), "True");
            home.wait(session.session.restore(&second)).expect("it is restored");
            assert_eq!(
                session.value("len(points), text, int(array[-1]), open('data.json').read(), new"),
                "(0, 'b', 0, '[3]', 1)"
            );
        }
        // A checkpoint of a restored session has the state of both.
        home.wait(session.session.restore(&first)).expect("it is restored");
        session.ok("points[0].x = 'third'");
        let third = home.wait(session.session.checkpoint("third")).expect("a checkpoint");
        session.ok("del points, text");
        home.wait(session.session.restore(&third)).expect("it is restored");
        assert_eq!(session.value("check(), points[0].x"), format!("({CHECKED}, 'third')"));
    }
}

#[test]
fn forks_are_independent_and_unique() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("import random, tempfile, uuid, os\nimport numpy as np\nx = 0\nrandom.seed(1); np.random.seed(1)");
        let forks = home.wait(session.session.fork(4)).expect("forks");
        let mut drawn = BTreeSet::new();
        let forks: Vec<_> = forks.into_iter().map(|session| TestSession { home: &home, session }).collect();
        for (index, fork) in forks.iter().enumerate() {
            fork.ok(&format!("x += {index}; open('own', 'w').write('{index}')"));
        }
        for (index, fork) in forks.iter().enumerate() {
            assert_eq!(fork.value("x, open('own').read(), os.listdir()"), format!("({index}, '{index}', ['own'])"));
            let numbers =
                "random.random(), float(np.random.rand()), uuid.uuid1().hex, tempfile.mktemp(), os.urandom(4)";
            drawn.insert(fork.value(numbers));
            drawn.extend(["random.random()", "float(np.random.rand())"].map(|one| fork.value(one)));
        }
        assert_eq!(drawn.len(), 3 * forks.len());
        assert_eq!(session.value("x, os.path.exists('own')"), "(0, False)");
    }
}

#[test]
fn open_files_are_named() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("x = 1\nfile = open('notes.txt', 'w')");
        let error = home.wait(session.session.checkpoint("c")).err().expect("an error");
        assert!(
            error.message().contains("the file \"work/notes.txt\"") || error.message().contains("notes.txt"),
            "{error}"
        );
        assert_eq!(error.kind(), codebox::ResultKind::InvalidRequest);
        session.ok("file.write('kept'); file.close()");
        home.wait(session.session.checkpoint("c")).expect("a checkpoint");
        assert_eq!(session.value("x, open('notes.txt').read()"), "(1, 'kept')");
        let empty = home.session(place, Request::python(""));
        let error = home.wait(empty.session.checkpoint("c")).err().expect("an error");
        assert!(error.message().contains("no cell has run"), "{error}");
    }
}

/// Libraries that keep files open close them for a checkpoint.
#[test]
fn sessions_with_figures_are_saved() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        let report = session.exec("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('t')\nplt.show()");
        assert!(
            report.is_success() && report.results.iter().any(|one| one.data.contains_key("image/png")),
            "{report:#?}"
        );
        let saved = home.wait(session.session.checkpoint("c")).expect("a checkpoint");
        home.wait(session.session.restore(&saved)).expect("it is restored");
        let report = session.exec("plt.plot([1, 2]); plt.title('again')\nplt.show()");
        assert!(
            report.is_success() && report.results.iter().any(|one| one.data.contains_key("image/png")),
            "{report:#?}"
        );
    }
}

#[test]
fn sessions_come_back_from_their_last_checkpoint() {
    let home = Home::new();
    let endless = || {
        let limits = LimitOverrides { wall: Some(Limit::At(Duration::from_millis(200))), ..LimitOverrides::default() };
        Cell { limits, ..Cell::from("x = 3\nwhile True: pass") }
    };
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("x = 1");
        home.wait(session.session.checkpoint("one")).expect("a checkpoint");
        session.ok("x = 2");
        assert!(!session.exec(endless()).is_kept());
        for restored in [Some("one"), None] {
            let report = session.exec("x");
            assert_eq!(value(&report).as_deref(), Some("1"));
            let state = report.session.expect("it is a session");
            assert_eq!((state.is_kept, state.restored_from.as_deref()), (true, restored));
        }
    }
}

#[test]
fn parked_sessions_resume() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        assert_eq!(session.value(STATE), CHECKED);
        for _ in 0..3 {
            home.wait(session.session.park()).expect("it is parked");
            assert!(!home.wait(session.session.is_live()));
            // A session that is parked already is not restored for that.
            home.wait(session.session.park()).expect("it is parked");
            assert_eq!(session.value("check()"), CHECKED);
        }
        let forks: Vec<Session> = home.wait(session.session.fork(1)).expect("a fork");
        drop(session);
        let fork = TestSession { home: &home, session: forks.into_iter().next().expect("a fork") };
        assert_eq!(fork.value("check()"), CHECKED);
        home.wait(fork.session.close());
    }
}

/// Saves, changes, restores and parks a session again and again: 1,000 times in the long form.
#[test]
fn cycles_lose_nothing() {
    let home = Home::new();
    let cell = |language: Language, first: &str, next: &str, change: &str, check: &str| {
        for place in PLACES {
            let request = Request { language: Some(language.clone()), ..Request::python("") };
            let session = home.session(place, request);
            session.ok(first);
            let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            let mut open = 0;
            for round in 1..=soak().of(10, 1000) {
                session.ok(next);
                let saved = home.wait(session.session.checkpoint("saved")).expect("a checkpoint");
                session.ok(change);
                home.wait(session.session.restore(&saved)).expect("it is restored");
                assert_eq!(session.value(check), round.to_string(), "{place:?}");
                home.wait(session.session.park()).expect("it is parked");
                assert_eq!(session.value(check), round.to_string(), "{place:?}");
                if round == 5 {
                    open = descriptors();
                }
            }
            // Other tests of this process have descriptors open as well.
            assert!(descriptors() < open + 200, "{} after {open}", descriptors());
            home.wait(session.session.close());
        }
    };
    cell(
        Language::Python,
        "import os; all = []",
        "all.append(len(all) + 1); open(f'f{len(all) % 7}', 'w').write(str(len(all)))",
        "all.clear(); [os.remove(name) for name in os.listdir('.')]",
        "all[-1] if all == list(range(1, len(all) + 1)) and open(f'f{len(all) % 7}').read() == str(len(all)) else all",
    );
    cell(
        Language::JavaScript,
        "const fs = require('fs'); const all = []",
        "all.push(all.length + 1); fs.writeFileSync('f', `${all.length}`)",
        "all.length = 0; fs.unlinkSync('f')",
        "all.every((one, at) => one === at + 1) && fs.readFileSync('f', 'utf8') === `${all.length}` ? all.at(-1) : all",
    );
}
