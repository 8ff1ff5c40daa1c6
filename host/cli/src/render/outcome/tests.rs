use std::num::NonZeroU64;
use std::time::Duration;

use codebox_core::{
    BackendId, Denial, EscalatedFrom, FileKind, GuestError, GuestPath, Isolation, Limit, LimitKind, Limits, Missing,
    OutFile, Provenance, SkippedFile,
};

use super::*;

fn report(outcome: Outcome) -> RunReport {
    let provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
    RunReport::new(outcome, provenance, Limits::default())
}

#[test]
fn plain_run_has_no_notes() {
    assert!(notes(&report(Outcome::Exited(0)), None).is_empty());
    assert!(notes(&report(Outcome::Exited(3)), None).is_empty());
}

#[test]
fn limit_message_has_value_and_option() {
    let mut run = report(Outcome::LimitHit(LimitKind::Wall));
    run.limits.wall = Limit::At(Duration::from_secs(5));
    assert_eq!(notes(&run, None), ["ended by the wall time limit of 5s; raise it with --timeout"]);
    let fuel = report(Outcome::LimitHit(LimitKind::Fuel));
    assert_eq!(notes(&fuel, None), ["ended by the fuel limit"]);
}

#[test]
fn option_for_higher_limit_is_named_once() {
    let mut run = report(Outcome::LimitHit(LimitKind::NetConnections));
    let denial =
        |detail: &str, hint: &str| Denial { what: DenialKind::Net, detail: detail.to_owned(), hint: hint.to_owned() };
    run.limits.net_connections = Limit::At(NonZeroU64::MIN);
    run.denials = vec![denial("a.org:80", "raise --max-net-connections"), denial("b.org:80", "add --net b.org:80")];
    let expected = "ended by the connection limit of 1; raise it with --max-net-connections";
    assert_eq!(
        notes(&run, None),
        [expected, "denied: network a.org:80", "denied: network b.org:80; add --net b.org:80"]
    );
    // If the program went on after the refusal, only the line about the refusal shows the option.
    run.outcome = Outcome::Exited(0);
    assert_eq!(notes(&run, None)[0], "denied: network a.org:80; raise --max-net-connections");
}

#[test]
fn names_command_that_was_not_started() {
    let mut run = report(Outcome::Exited(127));
    // The error of a program that ran is not repeated.
    run.error = Some(GuestError { value: "its own".to_owned(), ..GuestError::default() });
    assert!(notes(&run, None).is_empty());
    run.error = Some(GuestError {
        name: GuestError::NOT_FOUND.to_owned(),
        value: "nosuch: command not found".to_owned(),
        ..GuestError::default()
    });
    assert_eq!(notes(&run, None), ["nosuch: command not found"]);
}

#[test]
fn no_command_is_offered_where_there_is_none() {
    let mut run = report(Outcome::Exited(1));
    let needs = |command: &str| NeedsEscalation { reason: "it needs threads".to_owned(), command: command.to_owned() };
    run.needs_escalation = Some(needs("codebox run x.py"));
    assert_eq!(notes(&run, None), ["it needs threads; to run it in a container: codebox run x.py"]);
    run.needs_escalation = Some(needs(""));
    assert_eq!(notes(&run, None), ["it needs threads"]);
}

#[test]
fn reports_truncated_output_and_missing_features() {
    let mut run = report(Outcome::Exited(1));
    run.stdout.dropped = 42;
    run.denials.push(Denial {
        what: DenialKind::Fs,
        detail: "/etc/passwd".to_owned(),
        hint: "grant it with --dir".to_owned(),
    });
    run.missing.push(Missing { what: "threads".to_owned(), hint: String::new() });
    assert_eq!(
        notes(&run, None),
        [
            "stdout was truncated: 42 bytes dropped; raise it with --max-output",
            "denied: file /etc/passwd; grant it with --dir",
            "not available here: threads",
        ]
    );
}

#[test]
fn mentions_files_only_if_requested() {
    let host = |path: &str| HostPath::unix(path).expect("a host path");
    let file = |n: usize| OutFile {
        guest: GuestPath::new(format!("/work/{n}")).expect("a guest path"),
        host: Some(host(&format!("/out/{n}"))),
        size: 2048,
        sha256: None,
        kind: FileKind::Regular,
    };
    let mut run = report(Outcome::Exited(0));
    run.files.created = (0..MAX_LISTED_FILES + 2).map(file).collect();
    run.files.skipped.push(SkippedFile { name: b"/work/\xff".to_vec(), reason: "its name is not UTF-8".to_owned() });
    assert!(notes(&run, None).is_empty());
    assert!(!notes(&run, Some(&host("/other")))[0].starts_with("wrote"));
    let lines = notes(&run, Some(&host("/out")));
    assert_eq!(lines[0], "wrote /out/0 (2.0 KiB)");
    assert_eq!(lines[MAX_LISTED_FILES], "wrote 2 more files to /out");
    assert!(lines[MAX_LISTED_FILES + 1].ends_with("its name is not UTF-8"));
}

#[test]
fn second_runs_and_missing_output_are_said() {
    let mut run = report(Outcome::Exited(0));
    let out = HostPath::unix("/out").expect("a path");
    assert_eq!(notes(&run, Some(&out)), ["wrote nothing to /out: the program has created or changed no file in /work"]);
    run.provenance = Provenance::new(BackendId::new("podman"), Isolation::Container);
    run.provenance.escalated_from = Some(EscalatedFrom {
        backend: BackendId::new("wasm"),
        isolation: Isolation::Wasm,
        reason: "threads".to_owned(),
    });
    assert_eq!(notes(&run, None), ["ran again in container (podman), because wasm lacks threads"]);
}
