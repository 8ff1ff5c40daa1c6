//! The tests.

use libtest_mimic::{Failed, Trial};
use rustix::process::Signal;

use crate::roles::{DISCARDED, NOT_SERVED, PID, RENEWAL, RENEWED};
use crate::test_host::{Limits, TestHost, signal, this_program, wait_until};

pub fn all() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    vec![
        trial("a_run_is_served", a_run_is_served),
        trial("runs_beyond_the_capacity_are_refused", runs_beyond_the_capacity_are_refused),
        trial("another_process_is_started_after_the_last_run", another_process_is_started_after_the_last_run),
        trial("another_process_is_started_when_one_is_old", another_process_is_started_when_one_is_old),
        trial("runs_in_progress_end_after_a_stop", runs_in_progress_end_after_a_stop),
        trial("a_worker_without_a_run_ends_before_the_host", a_worker_without_a_run_ends_before_the_host),
        trial("no_client_waits_for_a_stopped_host", no_client_waits_for_a_stopped_host),
        trial("silent_clients_delay_no_run", silent_clients_delay_no_run),
        trial("another_installation_does_not_end_the_host", another_installation_does_not_end_the_host),
        trial(
            "a_killed_worker_is_reported_despite_ignored_signals",
            a_killed_worker_is_reported_despite_ignored_signals,
        ),
    ]
}

const REFUSED: Option<i32> = Some(NOT_SERVED as i32);

fn a_run_is_served() {
    let host = TestHost::start(Limits::default());
    let mut client = host.client(&["some", "words", ""]);
    assert_eq!(client.line(), "some words");
    let status = host.status().expect("it accepts requests");
    assert_eq!((status.runs, status.active), (1, 1));
    assert_eq!(client.end(), Some(3));
}

fn runs_beyond_the_capacity_are_refused() {
    let host = TestHost::start(Limits { active: 2, ..Limits::default() });
    let mut clients = [host.client(&["a"]), host.client(&["b"])];
    for (client, word) in clients.iter_mut().zip(["a", "b"]) {
        assert_eq!(client.line(), word);
    }
    let mut refused = host.client(&["c"]);
    assert_eq!((refused.line().as_str(), refused.end()), ("", REFUSED));
    let [first, second] = clients;
    assert_eq!(first.end(), Some(1));
    let mut third = host.client(&["d", "e"]);
    assert_eq!((third.line().as_str(), third.end()), ("d e", Some(2)));
    assert_eq!(second.end(), Some(1));
    assert_eq!(host.status().expect("it accepts requests").runs, 3);
}

fn another_process_is_started_after_the_last_run() {
    let mut host = TestHost::start(Limits { runs: 2, ..Limits::default() });
    let mut first = host.client(&["first"]);
    assert_eq!(first.line(), "first");
    assert!(!host.file(RENEWAL).exists());
    let mut second = host.client(&["second"]);
    assert_eq!(second.line(), "second");
    wait_until("no other host process is started", || host.file(RENEWAL).exists());
    assert!(host.status().is_none());
    let mut refused = host.client(&["third"]);
    assert_eq!((refused.line().as_str(), refused.end()), ("", REFUSED));
    // Accepted runs are not affected.
    assert_eq!([first.end(), second.end()], [Some(1); 2]);
    assert_eq!(host.wait(), Some(i32::from(RENEWED)));
}

fn another_process_is_started_when_one_is_old() {
    let mut host = TestHost::start(Limits { age: 0, ..Limits::default() });
    wait_until("no other host process is started", || host.file(RENEWAL).exists());
    assert_eq!(host.wait(), Some(i32::from(RENEWED)));
}

fn runs_in_progress_end_after_a_stop() {
    let mut host = TestHost::start(Limits::default());
    let mut client = host.client(&["word"]);
    assert_eq!(client.line(), "word");
    host.stop();
    assert!(host.status().is_none());
    assert_eq!(client.end(), Some(1));
    assert_eq!(host.wait(), Some(0));
    assert!(!host.file(RENEWAL).exists());
}

fn a_worker_without_a_run_ends_before_the_host() {
    let mut host = TestHost::start(Limits::default());
    // A worker is ready when one has served a run, since they are forked one after another.
    assert_eq!(host.client(&["word"]).end(), Some(1));
    host.stop();
    assert_eq!(host.wait(), Some(0));
    assert!(host.file(DISCARDED).exists(), "the worker was killed");
}

/// More clients than the queue of the socket holds.
const CROWD: usize = 80;

fn no_client_waits_for_a_stopped_host() {
    let host = TestHost::start(Limits::default());
    signal(host.pid(), Signal::STOP);
    let clients: Vec<_> = (0..CROWD).map(|_| host.client(&["word"])).collect();
    for client in clients {
        assert_eq!(client.end(), REFUSED);
    }
    signal(host.pid(), Signal::CONT);
    // The clients that gave up are not held against the host process.
    assert_eq!(host.client(&["word"]).end(), Some(1));
}

fn silent_clients_delay_no_run() {
    let host = TestHost::start(Limits::default());
    let silent: Vec<_> = (0..CROWD).map(|_| host.connect()).collect();
    assert_eq!(host.client(&["word"]).end(), Some(1));
    drop(silent);
}

fn another_installation_does_not_end_the_host() {
    let host = TestHost::start(Limits::default());
    let other = host.file("other-program");
    std::fs::copy(this_program(), &other).expect("a copy");
    assert_eq!(host.client_of(&other, &["word"]).end(), REFUSED);
    assert_eq!(host.client(&["word"]).end(), Some(1));
}

fn a_killed_worker_is_reported_despite_ignored_signals() {
    let host = TestHost::start_ignoring_children();
    let mut client = host.client(&[PID]);
    signal(client.line().parse().expect("a number"), Signal::KILL);
    assert_eq!(client.end(), None);
}
