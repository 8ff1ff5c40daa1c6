use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::backend_id::BackendId;
use crate::isolation::Isolation;
use crate::limits::{EnforcementLevel, LayerState, LimitKind, Limits, SandboxLayer};
use crate::outcome::{Outcome as CoreOutcome, TrapKind};
use crate::path::{GuestPath, HostPath};
use crate::report as core;

fn full_report() -> core::RunReport {
    let provenance = core::Provenance {
        runtime: Some("python 3.15".to_owned()),
        escalated_from: Some(core::EscalatedFrom {
            backend: BackendId::new("wasm"),
            isolation: Isolation::Wasm,
            reason: "it needs threads".to_owned(),
        }),
        reason: "threads".to_owned(),
        ..core::Provenance::new(BackendId::new("podman"), Isolation::Container)
    };
    let mut run = core::RunReport::new(CoreOutcome::Exited(3), provenance, Limits::default());
    run.stdout = core::CapturedOutput::complete("héllo\n");
    run.stderr = core::CapturedOutput { head: vec![0xff, b'a'], tail: vec![b'z'], dropped: 7 };
    run.results
        .push(core::MimeBundle { data: [("text/plain".to_owned(), json!("1"))].into(), ..core::MimeBundle::default() });
    run.error = Some(crate::guest_error::GuestError { name: "E".to_owned(), line: Some(2), ..Default::default() });
    run.files.created.push(core::OutFile {
        guest: GuestPath::new("/work/a b").expect("a guest path"),
        host: HostPath::unix("/ws/a b").ok(),
        size: 3,
        sha256: Some("00".repeat(32)),
        kind: core::FileKind::Regular,
    });
    let bad_name = core::SkippedFile { name: b"bad\xff".to_vec(), reason: "not UTF-8".to_owned() };
    run.files.skipped.push(bad_name);
    run.usage = core::Usage { wall: Duration::from_micros(1500), ..core::Usage::default() };
    run.enforcement.limits.insert(LimitKind::OpenFiles, EnforcementLevel::BestEffort);
    run.enforcement.layers.push(SandboxLayer {
        name: "landlock".to_owned(),
        state: LayerState::Held,
        detail: "ABI 7".to_owned(),
    });
    let (detail, hint) = ("/etc".to_owned(), "--dir".to_owned());
    run.denials.push(core::Denial { what: core::DenialKind::Fs, detail, hint });
    run.missing.push(core::Missing { what: "threads".to_owned(), hint: "a container".to_owned() });
    run
}

#[test]
fn serializes_report_fields() {
    let json = serde_json::to_value(RunReport::from(&full_report())).expect("it is JSON");
    assert_eq!(json["version"], 1);
    assert_eq!(json["success"], false);
    assert_eq!(json["exit_code"], 3);
    assert_eq!(json["duration_ms"], 1.5);
    assert_eq!(json["method"], "podman");
    assert_eq!(json["kind"], "guest_error");
    assert_eq!(json["outcome"], json!({"type": "exited", "status": 3}));
    assert_eq!(json["stdout"], "héllo\n");
    assert_eq!(json.get("stdout_base64"), None);
    assert_eq!(json["stderr"], "\u{fffd}az");
    assert_eq!(json["stderr_base64"], "/2F6");
    assert_eq!(json["stderr_truncated"], json!({"dropped_bytes": 7, "head_bytes": 2}));
    assert_eq!(json["files"]["created"][0]["guest_path"], "/work/a b");
    assert_eq!(json["files"]["skipped"][0]["name_base64"], "YmFk/w==");
    assert_eq!(json["enforcement"]["limits"], json!({"open_files": "best-effort"}));
    assert_eq!(json["limits"]["wall_ms"], 60_000);
    assert_eq!(json["limits"]["fuel"], "unlimited");
    assert_eq!(json["provenance"]["escalated_from"]["isolation"], "wasm");
    // An unknown value is absent, not 0 and not null.
    assert_eq!(json["usage"], json!({"wall_ms": 1.5}));
}

#[test]
fn replies_round_trip() {
    let run = Reply::Run(Box::new(RunReport::from(&full_report())));
    let failure = Reply::Failure(ErrorReport::new(ResultKind::Denied, "no", Some("do".to_owned())));
    let written = PartialOutput {
        stdout: core::CapturedOutput::complete("so far\n"),
        stderr: core::CapturedOutput::complete([0xff]),
    };
    let lost = Reply::Failure(ErrorReport::new(ResultKind::EngineLost, "lost", None).with_written(&written));
    for reply in [run, failure, lost] {
        let text = serde_json::to_string(&reply).expect("it is JSON");
        let back: Reply = serde_json::from_str(&text).expect("it reads back");
        assert_eq!(back, reply);
    }
}

#[test]
fn failure_has_kind_and_status() {
    let report = ErrorReport::new(ResultKind::InvalidRequest, "bad size \"x\"", None);
    let json = serde_json::to_value(report).expect("it is JSON");
    let error = json!({
        "kind": "invalid_request", "message": "bad size \"x\"", "exit_code": 125, "retryable": false,
    });
    assert_eq!(json, json!({ "error": error }));
    let written = PartialOutput {
        stdout: core::CapturedOutput::complete("so far\n"),
        stderr: core::CapturedOutput::complete([0xff]),
    };
    let lost = ErrorReport::new(ResultKind::EngineLost, "lost", None).with_written(&written);
    let partial = &serde_json::to_value(lost).expect("it is JSON")["partial"];
    assert_eq!(*partial, json!({ "stdout": "so far\n", "stderr": "\u{fffd}", "stderr_base64": "/w==" }));
}

#[test]
fn wire_names_match_internal_names() {
    for kind in ResultKind::ALL {
        let wire = serde_json::to_value(ResultName::from(*kind)).expect("it is JSON");
        assert_eq!(wire, kind.as_str());
    }
    for kind in LimitKind::ALL {
        let wire = serde_json::to_value(LimitName::from(kind)).expect("it is JSON");
        assert_eq!(wire, kind.as_str());
    }
    for held in [EnforcementLevel::Enforced, EnforcementLevel::BestEffort, EnforcementLevel::Unsupported] {
        let wire = serde_json::to_value(HeldWord::from(held)).expect("it is JSON");
        assert_eq!(wire, held.as_str());
    }
    for state in [LayerState::Held, LayerState::Partial, LayerState::Off, LayerState::Unavailable] {
        let wire = serde_json::to_value(WallWord::from(state)).expect("it is JSON");
        assert_eq!(wire, state.as_str());
    }
    for isolation in Isolation::ALL {
        let wire = serde_json::to_value(IsolationName::from(isolation)).expect("it is JSON");
        assert_eq!(wire, isolation.as_str());
    }
}

#[test]
fn keeps_engine_description_of_trap() {
    let trapped = CoreOutcome::Trapped(TrapKind::Other("integer divide by zero".to_owned()));
    let json = serde_json::to_value(Outcome::from(&trapped)).expect("it is JSON");
    let want = json!({"type": "trapped", "trap": "other", "detail": "integer divide by zero"});
    assert_eq!(json, want);
}

/// Compares the schema with the file that is checked in; `UPDATE_SCHEMA=1` writes the file anew.
#[test]
fn schema_matches_checked_in_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/run-report.v1.json");
    let schema = schemars::schema_for!(Reply).to_value();
    if env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        fs::write(&path, format!("{schema:#}\n")).expect("the schema can be written");
    }
    let text = fs::read_to_string(&path).expect("the schema is checked in");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("the schema is JSON");
    assert!(kept == schema, "run-report.v1.json is out of date; run the tests with UPDATE_SCHEMA=1");
}
