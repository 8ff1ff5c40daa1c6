use std::fs;
use std::thread;

use codebox_core::{BackendId, Job};

use super::*;
use crate::testing::Home;

fn log(home: &Home) -> AuditLog {
    AuditLog::beside(home.path(), false)
}

fn records(log: &AuditLog) -> Vec<AuditRecord> {
    let mut records = Vec::new();
    log.each(&mut |record| records.push(record)).expect("they are read");
    records
}

fn interrupted(id: &str) -> Event {
    Event::Interrupted { id: id.to_owned() }
}

fn file(home: &Home, name: &str) -> PathBuf {
    home.path().join("audit").join(name)
}

fn verified(log: &AuditLog) -> Verified {
    log.verify(None).expect("it is read").expect("it is unchanged")
}

fn broken(log: &AuditLog) -> String {
    log.verify(None).expect("it is read").expect_err("it was changed").reason
}

#[test]
fn records_are_linked() {
    let home = Home::new();
    let log = log(&home);
    assert_eq!(verified(&log).records, 0);
    for id in ["a", "b", "c"] {
        log.add(&interrupted(id)).expect("it is written");
    }
    let records = records(&log);
    let ids: Vec<_> = records.iter().map(|record| (record.seq, record.event.clone())).collect();
    assert_eq!(ids, [(1, interrupted("a")), (2, interrupted("b")), (3, interrupted("c"))]);
    assert_eq!(records[1].previous, records[0].digest);
    let result = verified(&log);
    assert_eq!((result.records, result.last, &result.digest), (3, 3, &records[2].digest));
    assert!(log.verify(Some(&records[1].digest)).expect("it is read").is_ok());
    let error = log.verify(Some(&"ab".repeat(32))).expect("it is read").expect_err("there is none");
    assert!(error.reason.contains("no record has the digest"), "{error}");
}

#[test]
fn changes_and_removals_are_found() {
    let home = Home::new();
    let log = log(&home);
    for id in ["a", "b", "c", "d"] {
        log.add(&interrupted(id)).expect("it is written");
    }
    let path = file(&home, "log.jsonl");
    let original = fs::read_to_string(&path).expect("a log");
    let lines: Vec<&str> = original.lines().collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let changed = original.replace("\"id\":\"b\"", "\"id\":\"x\"");
    let swapped = joined(&[lines[1], lines[0], lines[2], lines[3]]);
    for (text, expected) in [
        (changed, "line 2 was changed"),
        (joined(&[lines[0], lines[2], lines[3]]), "line 2 does not follow"),
        (joined(&lines[1..]), "the first 1 records were removed, and no record says so"),
        (joined(&lines[..3]), "there were 4, and 3 is the last"),
        (joined(&[lines[0], lines[0], lines[1], lines[2], lines[3]]), "line 2 does not follow"),
        (String::new(), "there were 4, and 0 is the last"),
        (swapped, "line 2 does not follow"),
        (format!("x\n{original}"), "line 1 was changed"),
    ] {
        fs::write(&path, &text).expect("it is ours");
        let reason = broken(&log);
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    // A removal is found after further records as well.
    let head = fs::read(file(&home, "head")).expect("a head");
    for (text, expected) in [
        (String::new(), "the first 4 records were removed, and no record says so"),
        (joined(&lines[..2]), "line 3 does not follow"),
    ] {
        fs::write(&path, &text).expect("it is ours");
        fs::write(file(&home, "head"), &head).expect("it is ours");
        log.add(&interrupted("e")).expect("it is written");
        let reason = broken(&log);
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    fs::write(&path, &original).expect("it is ours");
    fs::write(file(&home, "head"), &head).expect("it is ours");
    assert_eq!(verified(&log).records, 4);
    fs::remove_file(file(&home, "head")).expect("it is ours");
    assert!(broken(&log).contains("is missing"));
}

#[test]
fn a_killed_writer_damages_nothing() {
    let home = Home::new();
    let log = log(&home);
    log.add(&interrupted("a")).expect("it is written");
    let path = file(&home, "log.jsonl");
    let one = fs::read(&path).expect("a log");
    log.add(&interrupted("b")).expect("it is written");
    let two = fs::read(&path).expect("a log");
    let head = fs::read(file(&home, "head")).expect("a head");
    for end in one.len()..two.len() {
        // The head is written after the line.
        fs::write(&path, &two[..end]).expect("it is ours");
        fs::write(file(&home, "head"), head.as_slice()).expect("it is ours");
        if end > one.len() {
            fs::write(file(&home, "head"), format!("{:020} {}\n", 1, verified_digest(&one))).expect("it is ours");
            assert_eq!(verified(&log).records, 1);
        }
        fs::write(file(&home, "head"), format!("{:020} {}\n", 1, verified_digest(&one))).expect("it is ours");
        log.add(&interrupted("c")).expect("it is written");
        assert_eq!((verified(&log).records, records(&log)[1].event.clone()), (2, interrupted("c")));
    }
    // The line was written, and the head was not.
    fs::write(&path, &two).expect("it is ours");
    fs::write(file(&home, "head"), format!("{:020} {}\n", 1, verified_digest(&one))).expect("it is ours");
    assert_eq!(verified(&log).records, 2);
}

/// Returns the digest of the last record of a log's text.
fn verified_digest(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let end = text.trim_end().len() - 2;
    text[end - 64..end].to_owned()
}

#[test]
fn processes_and_threads_write_one_chain() {
    let home = Home::new();
    let log = log(&home);
    thread::scope(|scope| {
        for thread in 0..8 {
            let log = log.clone();
            scope.spawn(move || {
                (0..25).for_each(|count| log.add(&interrupted(&format!("{thread}-{count}"))).expect("it is written"));
            });
        }
    });
    assert_eq!(verified(&log).records, 200);
}

#[test]
fn long_records_are_continued() {
    let home = Home::new();
    let log = log(&home);
    for length in [10, 20_000, 10, 100_000, 16_000, 16_200, 16_384, 300_000] {
        log.add(&interrupted(&"x".repeat(length))).expect("it is written");
        log.add(&interrupted("short")).expect("it is written");
    }
    log.add(&interrupted(&"x".repeat(40_000))).expect("it is written");
    // A part of a long line is removed.
    let path = file(&home, "log.jsonl");
    let mut text = fs::read(&path).expect("a log");
    text.extend(std::iter::repeat_n(b'x', 50_000));
    fs::write(&path, text).expect("it is ours");
    log.add(&interrupted("last")).expect("it is written");
    assert_eq!(verified(&log).records, 18);
    let error = log.add(&interrupted(&"x".repeat(2 << 20))).expect_err("it is too long");
    assert!(error.source.to_string().contains("too long"), "{error}");
    assert_eq!(verified(&log).records, 18);
}

/// A process that keeps the log open notices records of others, and a log that was replaced.
#[test]
fn a_log_that_is_kept_open_is_continued() {
    let home = Home::new();
    let (other, open) = (log(&home), AuditLog::beside(home.path(), true));
    for round in 0..3 {
        for count in 0..2 {
            open.add(&interrupted(&format!("open-{count}"))).expect("it is written");
        }
        other.add(&interrupted("other")).expect("it is written");
        assert_eq!(verified(&open).records, 3 * (round + 1));
    }
    assert!(other.prune(u64::MAX).expect("it is pruned") > 0);
    open.add(&interrupted("open")).expect("it is written");
    other.add(&interrupted("other")).expect("it is written");
    assert_eq!(verified(&open).last, 12);
}

#[test]
fn old_records_are_pruned_and_the_rest_is_still_linked() {
    let home = Home::new();
    let log = log(&home);
    (0..5).for_each(|count| log.add(&interrupted(&count.to_string())).expect("it is written"));
    assert_eq!(log.prune(0).expect("it is pruned"), 0);
    let fourth = records(&log)[3].clone();
    let before = verified(&log);
    assert_eq!(log.prune(u64::MAX).expect("it is pruned"), 4);
    let records = records(&log);
    assert_eq!((records.len(), records[0].seq), (2, 5));
    assert_eq!(records[1].event, Event::Pruned { records: 4, last: fourth.digest });
    let result = verified(&log);
    assert_eq!((result.records, result.pruned, result.last), (2, 4, 6));
    // The last record before is known.
    assert!(log.verify(Some(&before.digest)).expect("it is read").is_ok());
    log.add(&interrupted("later")).expect("it is written");
    assert_eq!(log.prune(u64::MAX).expect("it is pruned"), 2);
    assert_eq!(verified(&log).pruned, 6);
    // Without the record of the removal, the removal is found.
    let path = file(&home, "log.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    let first = text.lines().next().expect("a line");
    fs::write(&path, format!("{first}\n")).expect("it is ours");
    assert!(broken(&log).contains("no record says so"));
}

#[test]
fn a_damaged_log_is_not_continued() {
    let home = Home::new();
    let log = log(&home);
    log.add(&interrupted("a")).expect("it is written");
    fs::write(file(&home, "log.jsonl"), "{}\n").expect("it is ours");
    let error = log.add(&interrupted("b")).expect_err("it is damaged");
    assert!(error.source.to_string().contains("codebox audit reset"), "{error}");
    assert!(log.prune(u64::MAX).is_err());
    let kept = log.reset().expect("it is reset").expect("it was damaged");
    assert_eq!(fs::read_to_string(&kept).expect("the old log"), "{}\n");
    log.add(&interrupted("c")).expect("it is written");
    assert_eq!(verified(&log).records, 2);
    let Event::Reset { kept: name, reason } = records(&log)[0].event.clone() else { panic!("{:?}", records(&log)) };
    assert_eq!(kept, file(&home, &name));
    assert!(reason.contains("line 1 was changed"), "{reason}");
    assert_eq!(log.reset().expect("it is read"), None);
}

/// The removal of the last records with the number of the last one is found after further records as well.
#[test]
fn a_removed_number_of_the_last_record_is_not_made_again() {
    let home = Home::new();
    let log = log(&home);
    ["a", "b", "c"].iter().for_each(|id| log.add(&interrupted(id)).expect("it is written"));
    let path = file(&home, "log.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    for (head, expected) in [(None, "missing"), (Some(""), "empty"), (Some("x"), "damaged")] {
        fs::write(&path, text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()).expect("it is ours");
        match head {
            None => fs::remove_file(file(&home, "head")).expect("it is ours"),
            Some(text) => fs::write(file(&home, "head"), text).expect("it is ours"),
        }
        for id in ["d", "e"] {
            log.add(&interrupted(id)).expect("it is written");
            assert!(broken(&log).contains(expected), "{expected}: {}", broken(&log));
        }
    }
    assert!(log.reset().expect("it is reset").is_some());
    log.add(&interrupted("f")).expect("it is written");
    assert_eq!(verified(&log).records, 2);
    // A process was killed before it wrote the first number.
    let other = Home::new();
    let log = AuditLog::beside(other.path(), false);
    log.add(&interrupted("a")).expect("it is written");
    fs::write(file(&other, "head"), "").expect("it is ours");
    assert_eq!(verified(&log).records, 1);
    log.add(&interrupted("b")).expect("it is written");
    assert_eq!(verified(&log).records, 2);
}

/// A secret is masked before the text is cut, which would leave a part of it.
#[test]
fn refusals_contain_no_parts_of_secrets() {
    use codebox_core::{ResultKind, RunnerError};

    let token = "ghp_0123456789abcdefghij0123456789abcdef";
    let line = format!("cannot grant {}/{token}/my-secret", "a".repeat(160));
    let error = RunnerError::new(ResultKind::Denied, line);
    let Event::Refused { reason, program, .. } = Event::refused("-c my-secret", None, &["my-secret"], &error) else {
        panic!("another event");
    };
    assert!(!reason.contains("ghp_") && reason.contains("***"), "{reason}");
    assert_eq!(program, "-c ***");
}

#[test]
fn jobs_are_described_without_their_text() {
    use codebox_core::{EnvName, NetGrant, SecretGrant, SecretName, SecretValue};

    let mut job = Job::python("print('the text')");
    job.args = vec!["argument".to_owned()];
    job.env.insert("TOKEN".to_owned(), "sk-value".to_owned());
    job.grants.env.push(EnvName::new("TOKEN").expect("a name"));
    let hosts: Vec<NetGrant> = vec!["api.example.org".parse().expect("a host")];
    job.grants.secrets.push(SecretGrant {
        name: SecretName::new("KEY").expect("a name"),
        value: SecretValue::new("sk-12345678").ok(),
        hosts,
    });
    let started = Started::new("1", &job, &BackendId::new("wasm"));
    let text = serde_json::to_string(&Event::Started(Box::new(started))).expect("it is serialized");
    for hidden in ["the text", "argument\"", "sk-"] {
        assert!(!text.contains(hidden), "{text}");
    }
    assert!(text.contains("\"TOKEN\"") && text.contains("api.example.org"), "{text}");
}
