//! L16: sessions see only their own values. Workers that are killed at any moment.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use codebox::{Cell, EnvName, EnvRequest, Request, RunReport, Stdin};
use codebox_testkit::soak;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, Place, TestSession};

/// Beginning of each value. A digit is between its parts in programs, so that they contain no value.
const MARK: &str = "own-";

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns all values in a text.
fn values(text: &str) -> BTreeSet<String> {
    let is_hex = |value: &&str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.match_indices(MARK).filter_map(|(at, _)| text.get(at + 4..at + 36)).filter(is_hex).map(str::to_owned).collect()
}

/// 100 sessions with 100 cells each in the long form: environment, standard input, files and variables are those of the session alone.
#[test]
fn sessions_see_only_their_own_values() {
    let home = Home::new();
    let (sessions, cells) = (soak().of(6, 100), soak().of(5, 100));
    let run = |index: usize| {
        let own = format!("{:016x}{:016x}", random(), random());
        let value = format!("{MARK}{own}");
        let variable = EnvRequest::Set(EnvName::new("OWN").expect("a name"), value.clone());
        let session = home.session(Place::Workers, Request { env: vec![variable], ..Request::python("") });
        let start = format!(
            "import os, sys, gc\nkept = {value:?}\nopen('/work/own', 'w').write(kept); open('/tmp/own', 'w').write(kept)"
        );
        session.ok(&start);
        for cell in 0..cells {
            let code = format!(
                "print(os.environ, sys.stdin.read(), file=sys.stderr)
for top, _, names in os.walk('/'):
    for name in names if top.startswith(('/work', '/tmp', '/run')) else []: print(top, name, open(top + '/' + name).read())
print([one for one in gc.get_objects() if isinstance(one, str)][:100])
open('/work/{index}-{cell}', 'w').write(kept)
{{name: one for name, one in globals().items() if isinstance(one, str)}}"
            );
            let report = session.exec(Cell { stdin: Stdin::Bytes(value.clone().into_bytes()), ..Cell::from(code) });
            assert!(report.is_success() && report.is_kept(), "{}", report.stderr.to_text_lossy());
            let text = format!("{report:?} {} {}", report.stdout.to_text_lossy(), report.stderr.to_text_lossy());
            assert_eq!(values(&text), BTreeSet::from([own.clone()]), "session {index}, cell {cell}");
        }
    };
    thread::scope(|scope| {
        for index in 0..sessions {
            scope.spawn(move || run(index));
        }
    });
}

/// Ends another thread, also when the test fails.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number that the cells of a session count, in its interpreter and in its last checkpoint.
struct Counted {
    current: u64,
    saved: u64,
}

impl Counted {
    /// Checks the report of a cell that counts on.
    fn check(&mut self, report: &RunReport) {
        let state = report.session.as_ref().expect("a session");
        let before = if state.was_lost { self.saved } else { self.current };
        if report.is_success() && report.is_kept() {
            self.current = before + 1;
            let value = crate::support::value(report);
            assert_eq!(value, Some(self.current.to_string()), "{state:?}");
        }
    }
}

/// Workers are killed at random moments of cells, checkpoints, forks, restores and parking. A session has the state of its last cell
/// or of its last checkpoint, and says which.
#[test]
fn killed_workers_lose_only_what_is_not_saved() {
    let home = Home::new();
    let session = home.session(Place::Workers, Request::python(""));
    session.ok("x = 0");
    let wait = |saving| home.wait(saving);
    wait(session.session.checkpoint("saved")).expect("a checkpoint");
    let mut counted = Counted { current: 0, saved: 0 };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = End(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(2_000 + random() % 60_000));
                for pid in home.workers() {
                    let _ = kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL);
                }
            }
        });
        let count = |session: &TestSession<'_>| home.wait(session.session.exec("x += 1\nx"));
        for round in 0..soak().of(60, 2000) {
            if let Ok(report) = count(&session) {
                counted.check(&report);
            }
            match round % 4 {
                // A session whose interpreter is lost is not saved.
                0 => {
                    if home.wait(session.session.checkpoint("saved")).is_ok() {
                        counted.saved = counted.current;
                    }
                }
                1 => {
                    for fork in home.wait(session.session.fork(2)).into_iter().flatten() {
                        if let Ok(report) = home.wait(fork.exec("x"))
                            && report.is_success()
                        {
                            let value = crate::support::value(&report).and_then(|value| value.parse::<u64>().ok());
                            let known = [counted.current, counted.saved];
                            assert!(value.is_some_and(|value| known.contains(&value)), "{value:?} {known:?}");
                        }
                    }
                }
                // A session without an interpreter has nothing to save.
                _ => {
                    let is_live = home.wait(session.session.is_live());
                    if home.wait(session.session.park()).is_ok() && is_live {
                        counted.saved = counted.current;
                    }
                }
            }
        }
    });
    // The session works.
    let report = home.wait(session.session.exec("x += 1\nx")).expect("a report");
    assert!(report.is_success(), "{report:?}");
}
