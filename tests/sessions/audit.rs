//! Records of sessions and their cells in the audit log.

use serde_json::Value;

use crate::session_home::{SessionHome, kill};

#[test]
fn cells_and_changes_of_sessions_are_recorded() {
    let home = SessionHome::new();
    let audit = |args: &[&str]| {
        let words = [&["audit"], args].concat().into_iter().map(str::to_owned);
        let ran = crate::support::kit().codebox().home(&home.home()).args(words).run().expect("it runs");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
        ran.stdout_text()
    };
    let id = home.new_session();
    home.exec(&id, "x = 'hidden'");
    home.run(&["exec", &id, "-c", "1 / 0"]);
    let fork = home.ok(&["fork", &id]).trim().to_owned();
    home.ok(&["checkpoint", &id, "--name", "a"]);
    home.ok(&["restore", &id, "a"]);
    home.ok(&["stop", &fork]);
    // A cell whose processes are killed has no end.
    let mut running = home.command(&["exec", &id, "-c", "while True: pass"]).command().spawn().expect("it starts");
    while home.json(&["show", &id, "--json"])["state"] != "busy" {}
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill(home.keeper());
    running.wait().expect("it ends");
    let listed: Value = serde_json::from_str(&audit(&["list", "--json", "--last", "100"])).expect("JSON");
    let events: Vec<&Value> =
        listed["records"].as_array().expect("records").iter().rev().map(|r| &r["event"]).collect();
    let text = |event: &Value| {
        let part = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let named = part("type") + " " + &part("action") + &part("kind") + " " + &part("other");
        named.trim().replace(&id, "SESSION")
    };
    // The end of a cell is recorded while the next request may be served.
    let (ended, events): (Vec<&Value>, Vec<&Value>) = events.into_iter().partition(|event| event["type"] == "ended");
    assert_eq!(ended.iter().map(|event| text(event)).collect::<Vec<_>>(), ["ended ok", "ended guest_error"]);
    let expected = [
        "session created",
        "started",
        "started",
        "session forked SESSION",
        "session restored a",
        "session stopped",
        "started",
        "interrupted",
    ];
    assert_eq!(events.iter().map(|event| text(event)).collect::<Vec<_>>(), expected);
    assert_eq!(events[1]["session"], id.as_str());
    assert_eq!(events[3]["session"], fork.as_str());
    assert!(!listed.to_string().contains("hidden"));
    let shown = audit(&["show", &id]);
    assert!(shown.contains("guest_error") && shown.contains("restored"), "{shown}");
    assert!(audit(&["verify"]).contains("10 records are intact"));
}

/// A cell that cannot be recorded, and must be, is refused, and the interpreter keeps its state.
#[test]
fn cells_that_cannot_be_recorded_are_refused() {
    let home = SessionHome::new();
    let config = home.home().join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("config.toml"), "require-audit = true\n").expect("it is ours");
    let id = home.new_session();
    home.exec(&id, "x = 1");
    let log = home.home().join("data/jobs/audit/log.jsonl");
    let kept = log.with_extension("kept");
    std::fs::rename(&log, &kept).expect("it is ours");
    std::fs::create_dir(&log).expect("a directory");
    let ran = home.run(&["exec", &id, "-c", "x = 2"]);
    assert!(ran.code == Some(125) && ran.stderr_text().contains("cannot write the audit log"), "{}", ran.stderr_text());
    let refused = home.run(&["new"]);
    assert_eq!((refused.code, refused.stdout_text().as_str()), (Some(125), ""), "{}", refused.stderr_text());
    std::fs::remove_dir(&log).expect("it is ours");
    std::fs::rename(&kept, &log).expect("it is ours");
    assert_eq!(home.exec(&id, "x"), "1\n");
    let sessions = home.json(&["list", "--json"])["sessions"].as_array().map(Vec::len);
    assert_eq!(sessions, Some(1));
}

/// A request follows the settings of its client, and not those with which the process of the sessions was started.
#[test]
fn settings_of_clients_apply() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = 1");
    let config = home.home().join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("config.toml"), "require-audit = true\n").expect("it is ours");
    let log = home.home().join("data/jobs/audit/log.jsonl");
    let kept = log.with_extension("kept");
    std::fs::rename(&log, &kept).expect("it is ours");
    std::fs::create_dir(&log).expect("a directory");
    let ran = home.run(&["exec", &id, "-c", "x = 2"]);
    assert!(ran.code == Some(125) && ran.stderr_text().contains("cannot write the audit log"), "{}", ran.stderr_text());
    assert_eq!(home.run(&["new"]).code, Some(125));
    std::fs::remove_file(config.join("config.toml")).expect("it is ours");
    let ran = home.run(&["exec", &id, "-c", "x"]);
    assert!(ran.code == Some(0) && ran.stdout_text() == "1\n", "{}", ran.stderr_text());
    // A session can be stopped in any case.
    std::fs::write(config.join("config.toml"), "require-audit = true\n").expect("it is ours");
    assert_eq!(home.run(&["stop", &id]).code, Some(0));
    std::fs::remove_dir(&log).expect("it is ours");
    std::fs::rename(&kept, &log).expect("it is ours");
}
