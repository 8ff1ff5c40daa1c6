use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use codebox_core::Source;

use super::*;
use crate::audit::AuditRecord;
use crate::testing::Home;

fn accepted(backend: &BackendId) -> Accepted<'_> {
    static JOB: LazyLock<Job> = LazyLock::new(|| Job::python(""));
    Accepted { job: &JOB, backend, attachment: None, tool: None }
}

fn open(home: &Home) -> Result<Journal, JournalError> {
    Journal::open(JournalOptions { audit: Audit::Off, ..JournalOptions::new(home.path().to_owned()) })
}

fn states(journal: &Journal) -> Vec<(String, State)> {
    let recent = journal.recent(100).expect("it can be read");
    recent.into_iter().map(|record| (record.id, record.state)).collect()
}

const WASM: BackendId = BackendId::new("wasm");

#[test]
fn records_start_and_end_once() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    let id = entry.id().to_owned();
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    // A process that opens the journal meanwhile leaves the running job alone.
    open(&home).expect("the journal is written");
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    entry.end(ResultKind::GuestError, 1, None);
    assert_eq!(states(&journal), [(id, State::Finished)]);
    let record = journal.recent(1).expect("it can be read").remove(0);
    assert_eq!((record.kind.as_deref(), record.exit_code), (Some("guest_error"), Some(1)));
}

#[test]
fn job_without_end_is_interrupted() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let id = journal.accept(accepted(&WASM)).expect("the journal is written").id().to_owned();
    for _ in 0..2 {
        open(&home).expect("the journal is written");
        assert_eq!(states(&journal), [(id.clone(), State::Interrupted)]);
    }
    let lines = fs::read_to_string(home.path().join("history.jsonl")).expect("a history");
    assert_eq!(lines.lines().filter(|line| !line.is_empty()).count(), 1, "{lines}");
}

#[test]
fn lists_duplicate_history_entries_once() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    let (id, mut record) = (entry.id().to_owned(), entry.record.clone());
    entry.end(ResultKind::Ok, 0, None);
    // Simulates a process that is killed after it adds the record to the history and before it removes the note.
    record.ended(End::now(ResultKind::Ok, 0, None));
    History::open(home.path()).and_then(|mut history| history.add(&record)).expect("the journal is written");
    open(&home).expect("the journal is written");
    assert_eq!(states(&journal), [(id, State::Finished)]);
    assert_eq!(files(home.path()), ["history.jsonl", "lock"]);
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn compromised_process_cannot_change_other_jobs() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let first = journal.accept(accepted(&WASM)).expect("the journal is written");
    let earlier = first.id().to_owned();
    first.end(ResultKind::Ok, 0, None);
    open(&home).expect("the journal is written");
    let hostile: [&[u8]; 5] = [
        b"",
        b"garbage\n",
        b"{\"ended_ms\":1,\"kind\":\"\x1b[2J\",\"exit_code\":0}\n",
        // The record of another job is not an end.
        b"{\"id\":\"0\",\"program\":\"x\",\"language\":\"x\",\"backend\":\"x\",\"accepted_ms\":0,\"state\":\"finished\"}\n",
        b"{\"ended_ms\":18446744073709551615,\"kind\":\"ok\",\"exit_code\":0}\n",
    ];
    for (at, text) in hostile.into_iter().enumerate() {
        let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
        let record = entry.record.clone();
        let end = home.path().join(format!("{}.end", record.id));
        drop(entry);
        fs::write(&end, text).expect("the journal is written");
        open(&home).expect("the journal is written");
        let all = journal.recent(100).expect("it can be read");
        let own = all.iter().find(|known| known.id == record.id).expect("it is listed");
        let state = if at == 4 { State::Finished } else { State::Interrupted };
        assert_eq!((own.state, &own.program, own.accepted_ms), (state, &record.program, record.accepted_ms));
        assert!(own.ended_ms.is_some_and(|at| at <= record::millis(SystemTime::now())), "{own:?}");
        assert!(all.iter().any(|known| known.id == earlier && known.state == State::Finished));
    }
}

/// The descriptors that a process holds open while it runs a job do not allow it to change the history or the job's
/// note.
#[test]
#[cfg(target_os = "linux")]
fn keeps_no_descriptor_to_history() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    let mut writable = Vec::new();
    for descriptor in fs::read_dir("/proc/self/fd").expect("a list").flatten() {
        let Ok(target) = fs::read_link(descriptor.path()) else { continue };
        let number = descriptor.file_name().to_string_lossy().into_owned();
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).map(|flags| flags.trim().to_owned());
        let is_writable =
            flags.and_then(|flags| u32::from_str_radix(&flags, 8).ok()).is_some_and(|flags| flags & 3 != 0);
        if target.starts_with(home.path()) && is_writable {
            writable.extend(target.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    assert_eq!(writable, [format!("{}.end", entry.id())]);
}

#[test]
fn handed_over_job_ends_with_second_run() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let first = journal.accept(accepted(&WASM)).expect("the journal is written");
    let id = first.id().to_owned();
    let second = journal.resume(&id, accepted(&BackendId::new("docker"))).expect("the journal is written");
    first.hand_over_entry();
    assert_eq!(states(&journal), [(id.clone(), State::Running)]);
    second.end(ResultKind::Ok, 0, None);
    open(&home).expect("the journal is written");
    assert_eq!(states(&journal), [(id, State::Finished)]);
    assert_eq!(journal.recent(1).expect("it can be read")[0].backend, "docker");
    for no_number in ["", "../x", "12 "] {
        assert!(journal.resume(no_number, accepted(&WASM)).is_err(), "{no_number:?}");
    }
}

#[test]
fn skips_truncated_line() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    fs::write(home.path().join("history.jsonl"), "{\"id\":\"cu").expect("the journal is written");
    fs::write(home.path().join("broken.job"), "{").expect("the journal is written");
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    entry.end(ResultKind::Ok, 0, None);
    open(&home).expect("it is looked through");
    assert_eq!(states(&journal).len(), 1);
    assert!(!home.path().join("broken.job").exists());
}

#[test]
fn rotates_long_history() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let mut ids = BTreeSet::new();
    let mut end = |count: usize| {
        for _ in 0..count {
            let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
            ids.insert(entry.id().to_owned());
            entry.end(ResultKind::Ok, 0, None);
        }
    };
    end(3);
    open(&home).expect("the journal is written");
    let page = home.path().join("history.jsonl");
    let mut text = fs::read(&page).expect("a history");
    text.resize(2 << 20, b'\n');
    fs::write(&page, text).expect("the journal is written");
    open(&home).expect("the journal is written");
    assert!(!page.exists());
    end(2);
    assert_eq!(states(&journal).into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn keeps_end_after_rotation() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    let long = journal.accept(accepted(&WASM)).expect("the journal is written");
    let id = long.id().to_owned();
    for _ in 0..2 {
        fs::write(home.path().join("history.jsonl"), vec![b'\n'; 2 << 20]).expect("the journal is written");
        open(&home).expect("the journal is written");
    }
    long.end(ResultKind::Ok, 0, None);
    open(&home).expect("the journal is written");
    assert_eq!(states(&journal), [(id, State::Finished)]);
}

#[test]
fn failed_record_leaves_no_file() {
    let home = Home::new();
    let journal = open(&home).expect("the journal is written");
    fs::create_dir(home.path().join("history.jsonl")).expect("the journal is written");
    assert!(journal.accept(accepted(&WASM)).is_err());
    fs::remove_dir(home.path().join("history.jsonl")).expect("it is empty");
    open(&home).expect("it is looked through");
    assert_eq!(states(&journal), []);
}

fn audited(home: &Home, audit: Audit) -> Journal {
    let options = JournalOptions { audit, ..JournalOptions::new(home.path().to_owned()) };
    Journal::open(options).expect("the journal is written")
}

/// Returns the events of the audit log by their types.
fn types(journal: &Journal) -> Vec<String> {
    let mut types = Vec::new();
    let mut of = |record: AuditRecord| {
        types.push(serde_json::to_value(&record.event).expect("it is serialized")["type"].to_string());
    };
    journal.audit_log().each(&mut of).expect("they are read");
    types
}

#[test]
fn starts_and_ends_are_audited_once() {
    let home = Home::new();
    let journal = audited(&home, Audit::On);
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    assert!(entry.audit_failure().is_none());
    assert_eq!(types(&journal), ["\"started\""]);
    entry.end(ResultKind::Ok, 0, None);
    // The end is added by the next process, which can write to the log.
    assert_eq!(types(&journal), ["\"started\""]);
    for _ in 0..2 {
        assert_eq!(types(&audited(&home, Audit::On)), ["\"started\"", "\"ended\""]);
    }
    drop(journal.accept(accepted(&WASM)).expect("the journal is written"));
    let journal = audited(&home, Audit::On);
    assert_eq!(types(&journal)[2..], ["\"started\"", "\"interrupted\""]);
    let (cell, _) = journal.accept_cell("s", accepted(&WASM)).expect("the log is written");
    cell.end(ResultKind::GuestError, 1, None)();
    assert_eq!(types(&journal)[4..], ["\"started\"", "\"ended\""]);
    assert_eq!(journal.recent(10).expect("it is read").len(), 2);
    assert!(journal.audit_log().verify(None).expect("it is read").is_ok());
}

#[test]
fn jobs_that_must_be_audited_are_refused_otherwise() {
    let home = Home::new();
    let count = |journal: &Journal| journal.recent(10).expect("it is read").len();
    fs::write(home.path().join("audit"), "no directory").expect("it is ours");
    let error = audited(&home, Audit::Required).accept(accepted(&WASM)).expect_err("it cannot be recorded");
    assert!(error.to_string().contains("cannot write the audit log"), "{error}");
    assert_eq!(count(&audited(&home, Audit::Required)), 0);
    let journal = audited(&home, Audit::On);
    let entry = journal.accept(accepted(&WASM)).expect("it runs nevertheless");
    assert!(entry.audit_failure().is_some());
    entry.end(ResultKind::Ok, 0, None);
    // Its end is in the history nevertheless, and waits for the log.
    let journal = audited(&home, Audit::On);
    let (waiting, others): (Vec<String>, Vec<String>) =
        files(home.path()).into_iter().partition(|name| name.ends_with(".event"));
    assert_eq!(
        (waiting.len(), others, count(&journal)),
        (1, ["audit", "history.jsonl", "lock"].map(str::to_owned).to_vec(), 1)
    );
    fs::remove_file(home.path().join("audit")).expect("it is ours");
    assert_eq!(types(&audited(&home, Audit::On)), ["\"ended\""]);
    assert!(files(home.path()).iter().all(|name| !name.ends_with(".event")));
    let journal = audited(&home, Audit::Off);
    assert!(journal.accept(accepted(&WASM)).expect("it is not recorded").audit_failure().is_none());
}

/// The text of an end comes from a process that may have been taken over.
#[test]
fn hostile_ends_change_their_own_record_alone() {
    let home = Home::new();
    let journal = audited(&home, Audit::On);
    let entry = journal.accept(accepted(&WASM)).expect("the journal is written");
    let id = entry.id().to_owned();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [
        r#"{"ended_ms":1,"kind":"ok","exit_code":0,"report":{"x":"\u001b[2J\n"},"id":"other"}"#.to_owned(),
        format!(r#"{{"ended_ms":1,"kind":"ok","exit_code":0,"report":{deep}}}"#),
        "{".to_owned(),
    ] {
        fs::write(home.path().join(format!("{id}.end")), text).expect("it is ours");
    }
    drop(entry);
    let journal = audited(&home, Audit::On);
    assert_eq!(types(&journal), ["\"started\"", "\"interrupted\""]);
    assert!(journal.audit_log().verify(None).expect("it is read").is_ok());
}

/// A process that runs many jobs, such as a server, records their ends itself.
#[test]
fn the_notes_of_a_long_process_are_bounded() {
    let home = Home::new();
    let journal = audited(&home, Audit::On);
    for _ in 0..100 {
        journal.accept(accepted(&WASM)).expect("the journal is written").end(ResultKind::Ok, 0, None);
        assert!(files(home.path()).len() < 2 * 33 + 4, "{}", files(home.path()).len());
    }
    assert_eq!(journal.recent(200).expect("it is read").len(), 100);
    assert!(types(&journal).len() >= 100 + 64);
}

#[test]
fn values_of_variables_are_masked() {
    let home = Home::new();
    let mut job = Job::new(Source::Command(vec!["abc123secretval".to_owned()]), codebox_core::Language::Command);
    job.env.insert("TOKEN".to_owned(), "abc123secretval".to_owned());
    let journal = audited(&home, Audit::On);
    let accepted = Accepted { job: &job, backend: &WASM, attachment: None, tool: None };
    let _ended = journal.accept(accepted).expect("the journal is written").end(ResultKind::Ok, 0, None);
    assert_eq!(journal.recent(1).expect("it is read")[0].program, "***");
    let all: String = fs::read_dir(home.path())
        .expect("it is ours")
        .chain(fs::read_dir(home.path().join("audit")).expect("it is ours"))
        .filter_map(|entry| fs::read_to_string(entry.expect("an entry").path()).ok())
        .collect();
    assert!(all.contains("\"command\"") && !all.contains("secretval"), "{all}");
}

/// Ends of parts that cannot be recorded are recorded with a later end.
#[test]
fn ends_wait_in_the_process() {
    let home = Home::new();
    let journal = audited(&home, Audit::On);
    let start = || journal.accept_cell("s", accepted(&WASM)).expect("the log is written").0;
    let (first, second) = (start(), start());
    let log = home.path().join("audit");
    let aside = home.path().join("aside");
    fs::rename(&log, &aside).expect("it is ours");
    fs::write(&log, "no directory").expect("it is ours");
    for _ in 0..1000 {
        fs::write(home.path().join(format!("{:032x}.event", rand::random::<u128>())), "no event").expect("it is ours");
    }
    first.end(ResultKind::Ok, 0, None)();
    fs::remove_file(&log).expect("it is ours");
    fs::rename(&aside, &log).expect("it is ours");
    assert_eq!(types(&journal), ["\"started\"", "\"started\""]);
    second.end(ResultKind::Ok, 0, None)();
    assert_eq!(types(&journal)[2..], ["\"ended\"", "\"ended\""]);
}
