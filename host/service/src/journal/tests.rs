use std::collections::BTreeSet;

use super::*;

fn accepted(backend: &BackendId) -> Accepted<'_> {
    const SOURCE: &Source = &Source::Inline(String::new());
    Accepted { source: SOURCE, language: &Language::Python, backend }
}

fn states(journal: &Journal) -> Vec<(String, State)> {
    let recent = journal.recent(100).expect("it can be read");
    recent.into_iter().map(|record| (record.id, record.state)).collect()
}

const WASM: BackendId = BackendId::new("wasm");

#[test]
fn a_job_runs_and_ends_once() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let entry = journal.accept(accepted(&WASM)).expect("room");
    let id = entry.id().to_owned();
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    // Somebody who starts meanwhile leaves it alone.
    Journal::open(home.path()).expect("room");
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    entry.end(ResultKind::GuestError, 1);
    assert_eq!(states(&journal), [(id, State::Finished)]);
    let record = journal.recent(1).expect("it can be read").remove(0);
    assert_eq!((record.kind.as_deref(), record.exit_code), (Some("guest_error"), Some(1)));
}

#[test]
fn a_job_without_an_end_was_interrupted() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let id = journal.accept(accepted(&WASM)).expect("room").id().to_owned();
    for _ in 0..2 {
        Journal::open(home.path()).expect("room");
        assert_eq!(states(&journal), [(id.clone(), State::Interrupted)]);
    }
    let lines = fs::read_to_string(home.path().join("history.jsonl")).expect("a history");
    assert_eq!(lines.lines().filter(|line| !line.is_empty()).count(), 1, "{lines}");
}

#[test]
fn an_end_that_was_told_is_not_lost_with_its_note() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let entry = journal.accept(accepted(&WASM)).expect("room");
    let id = entry.id().to_owned();
    // The process is killed between the two writes.
    let Entry { mut history, mut record, file, .. } = entry;
    record.ended(ResultKind::Ok, 0);
    history.add(&record).expect("room");
    drop(file);
    Journal::open(home.path()).expect("room");
    assert_eq!(states(&journal), [(id, State::Finished)]);
}

#[test]
fn a_job_that_was_passed_on_has_the_other_ones_end() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let first = journal.accept(accepted(&WASM)).expect("room");
    let id = first.id().to_owned();
    let second = journal.resume(&id, accepted(&BackendId::new("docker"))).expect("room");
    first.pass_on();
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    second.end(ResultKind::Ok, 0);
    Journal::open(home.path()).expect("room");
    assert_eq!(states(&journal), [(id, State::Finished)]);
    assert_eq!(journal.recent(1).expect("it can be read")[0].backend, "docker");
    for no_number in ["", "../x", "12 "] {
        assert!(journal.resume(no_number, accepted(&WASM)).is_err(), "{no_number:?}");
    }
}

#[test]
fn a_line_that_was_cut_costs_itself_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    fs::write(home.path().join("history.jsonl"), "{\"id\":\"cu").expect("room");
    fs::write(home.path().join("broken.job"), "{").expect("room");
    let entry = journal.accept(accepted(&WASM)).expect("room");
    entry.end(ResultKind::Ok, 0);
    Journal::open(home.path()).expect("it is looked through");
    assert_eq!(states(&journal).len(), 1);
    assert!(!home.path().join("broken.job").exists());
}

#[test]
fn a_long_history_begins_another_page_and_loses_nothing_recent() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let mut ids = BTreeSet::new();
    let mut end = |count: usize| {
        for _ in 0..count {
            let entry = journal.accept(accepted(&WASM)).expect("room");
            ids.insert(entry.id().to_owned());
            entry.end(ResultKind::Ok, 0);
        }
    };
    end(3);
    let page = home.path().join("history.jsonl");
    let mut text = fs::read(&page).expect("a history");
    text.resize(2 << 20, b'\n');
    fs::write(&page, text).expect("room");
    Journal::open(home.path()).expect("room");
    assert!(!page.exists());
    end(2);
    assert_eq!(states(&journal).into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn an_end_that_comes_two_pages_late_is_not_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    let long = journal.accept(accepted(&WASM)).expect("room");
    let id = long.id().to_owned();
    for _ in 0..2 {
        fs::write(home.path().join("history.jsonl"), vec![b'\n'; 2 << 20]).expect("room");
        Journal::open(home.path()).expect("room");
    }
    long.end(ResultKind::Ok, 0);
    Journal::open(home.path()).expect("room");
    assert_eq!(states(&journal), [(id, State::Finished)]);
}

#[test]
fn a_job_that_cannot_be_noted_leaves_no_note() {
    let home = tempfile::tempdir().expect("a directory");
    let journal = Journal::open(home.path()).expect("room");
    fs::create_dir(home.path().join("history.jsonl")).expect("room");
    assert!(journal.accept(accepted(&WASM)).is_err());
    fs::remove_dir(home.path().join("history.jsonl")).expect("it is empty");
    Journal::open(home.path()).expect("it is looked through");
    assert_eq!(states(&journal), []);
}
