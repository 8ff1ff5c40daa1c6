//! Decisions about calls: which call is decided, what is kept and reported.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::session_home::kill;
use crate::suspension::{Shop, suspended};

/// The call that is made is the one that is shown, also if the guest writes a name twice, and the whole of it can be seen.
#[test]
fn the_shown_call_is_the_one_that_is_made() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let code = r#"
from codebox import tools, ToolError
host = ToolError.__init__.__globals__['_host']
text = '{"to":"a","amount":5' + ' ' * 5000 + ',"note":"' + 'x' * 9000 + '","to":"b","amount":99999}'
host.call(b"\x04pay\0" + text.encode())
"#;
    let ran = shop.exec(&id, code, &[]);
    suspended(&ran);
    assert!(ran.stderr_text().contains("bytes more)"), "{}", ran.stderr_text());
    let shown = shop.home.ok(&["show", &id]);
    assert!(shown.contains("99999") && !shown.contains("\"amount\":5,"), "{shown}");
    let ran = shop.resume(&id, "--approve");
    let [made] = <[String; 1]>::try_from(shop.calls("pay")).expect("one call");
    assert!(shown.contains(&made), "{made} {}", ran.stderr_text());
}

#[test]
fn a_decision_names_its_call() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let ran = shop.exec(&id, "from codebox import tools\ntools.pay(n=1); tools.pay(n=2)", &[]);
    suspended(&ran);
    let call = |shop: &Shop| {
        let shown = shop.home.json(&["show", &id, "--json"]);
        shown["suspended"]["id"].as_str().expect("an id").to_owned()
    };
    let first = call(&shop);
    assert!(ran.stderr_text().contains(&format!("--call {first}")), "{}", ran.stderr_text());
    let ran = shop.home.run(&["resume", &id, "--approve", "--call", &first]);
    suspended(&ran);
    assert!(ran.stderr_text().contains("approves the call"), "{}", ran.stderr_text());
    // The same command again, because its answer was lost.
    for decision in ["--approve", "--deny", "--discard"] {
        let ran = shop.home.run(&["resume", &id, decision, "--call", &first]);
        assert!(ran.code == Some(125) && ran.stderr_text().contains("does not wait"), "{}", ran.stderr_text());
    }
    assert_eq!(shop.calls("pay").len(), 1);
    let ran = shop.home.run(&["resume", &id, "--discard", "--call", &call(&shop)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
}

/// A cell that does not make the call that was decided has taken another course.
#[test]
fn a_cell_that_leaves_out_the_decided_call_is_refused() {
    let shop = Shop::new();
    let dir = shop.home.0.path().join("granted");
    fs::create_dir(&dir).expect("a directory");
    let id = shop.home.ok(&["new", "--dir", &format!("{}:/data", dir.display())]).trim().to_owned();
    shop.home.exec(&id, "x = 1");
    let code = "from codebox import tools\nimport os\nx = 2\nif not os.path.exists('/data/skip'): x = tools.pay()\nx";
    suspended(&shop.exec(&id, code, &[]));
    fs::write(dir.join("skip"), "").expect("it is ours");
    for decision in ["--approve", "--deny"] {
        let ran = shop.resume(&id, decision);
        assert!(
            ran.code == Some(125) && ran.stderr_text().contains("it ends, and called pay"),
            "{}",
            ran.stderr_text()
        );
        assert_eq!((shop.state(&id), shop.calls("pay").len()), ("suspended".into(), 0));
    }
    assert_eq!(shop.resume(&id, "--discard").code, Some(0));
    assert_eq!(shop.home.exec(&id, "x"), "1\n");
}

/// The result of a call that cannot be made again is saved with the state of its cell.
#[test]
fn the_state_after_a_resumed_cell_is_saved() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "x = 1");
    suspended(&shop.exec(&id, "from codebox import tools\nreceipt = tools.pay()", &[]));
    assert_eq!(shop.resume(&id, "--approve").code, Some(0));
    kill(shop.home.keeper());
    assert_eq!(shop.home.exec(&id, "[x, receipt]"), "[1, 7]\n");
    // A state that cannot be saved is lost, and the session says so.
    suspended(&shop.exec(&id, "x = tools.pay()\nf = open('/work/f', 'w')", &[]));
    assert_eq!(shop.resume(&id, "--approve").code, Some(0));
    kill(shop.home.keeper());
    let ran = shop.home.run(&["exec", &id, "-c", "x"]);
    assert_eq!(ran.stdout_text(), "1\n");
    assert!(ran.stderr_text().contains("restored from the checkpoint"), "{}", ran.stderr_text());
    assert_eq!(shop.calls("pay").len(), 2);
}

/// Returns the workers of a home's sessions.
fn workers(home: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_worker = |pid: &i32| {
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()).into_owned()
        };
        let is_confined = read("status").contains("\nSeccomp:\t2");
        is_confined && (read("environ") + &read("cmdline")).contains(&home.display().to_string())
    };
    pids.filter(is_worker).collect()
}

/// A worker that is killed while its cell goes on leaves a cell that can be resumed, if it cannot have had effects.
#[test]
fn a_cell_goes_on_after_its_worker_was_killed() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let code = "from codebox import tools\ntry: tools.slow()\nexcept Exception as e: print(e.kind)";
    suspended(&shop.exec(&id, code, &[]));
    let mut resuming = shop.start_slow_call(&id);
    let found = workers(&shop.home.home());
    assert!(!found.is_empty(), "no worker is found");
    for pid in found {
        let _ = kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL);
    }
    assert_ne!(resuming.wait().expect("it ends").code(), Some(0));
    assert_eq!(shop.state(&id), "suspended");
    let ran = shop.resume(&id, "--continue");
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "interrupted\n"), "{}", ran.stderr_text());
    assert_eq!(shop.calls("slow").len(), 1);
}

/// The servers and the project's tools of another directory are not those of the cell.
#[test]
fn a_cell_is_resumed_in_its_directory() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    suspended(&shop.exec(&id, "from codebox import tools\ntools.pay()", &[]));
    let other = shop.home.0.path().join("other");
    fs::create_dir(&other).expect("a directory");
    let mut command = shop.home.command(&["resume", &id, "--approve"]).command();
    let ran = command.current_dir(&other).stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(125) && text.contains("in the directory of the cell"), "{text}");
    assert_eq!(shop.calls("pay").len(), 0);
    assert_eq!(shop.resume(&id, "--approve").code, Some(0));
}

/// All calls of a cell are in its last report.
#[test]
fn the_last_report_has_all_calls() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let code = "from codebox import tools
tools.look()
try: tools.pay()
except Exception as e: print(e.kind)
tools.pay()
tools.look()";
    suspended(&shop.exec(&id, code, &[]));
    suspended(&shop.resume(&id, "--deny"));
    let ran = shop.home.run(&["resume", &id, "--approve", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout_text()).expect("a report");
    let calls = report["tool_calls"].as_array().expect("calls").iter();
    let calls: Vec<_> =
        calls.map(|call| (call["name"].as_str().unwrap_or_default(), call["failure"].as_str())).collect();
    assert_eq!(calls, [("look", None), ("pay", Some("denied")), ("pay", None), ("look", None)]);
}

/// A cell that can be suspended says what an ordinary one says about the state before it.
#[test]
fn a_lost_state_is_reported_and_seeds_stay() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "import random; random.seed(1)");
    let other = shop.home.new_session();
    shop.home.exec(&other, "import random; random.seed(1)");
    let expected = shop.home.exec(&other, "random.random(), random.random()");
    let ran = shop.exec(&id, "from codebox import tools\nrandom.random(), (tools.pay(), random.random())[1]", &[]);
    suspended(&ran);
    assert_eq!(shop.resume(&id, "--approve").stdout_text(), expected);
    let lost = shop.home.new_session();
    shop.home.exec(&lost, "x = 1");
    shop.home.run(&["exec", &lost, "--timeout", "1s", "-c", "while True: pass"]);
    let ran = shop.exec(&lost, "'x' in dir()", &[]);
    assert_eq!(ran.stdout_text(), "False\n");
    assert!(ran.stderr_text().contains("started without its earlier state"), "{}", ran.stderr_text());
}

/// A process that is killed while a cell goes on repeats at most the output since the last call.
#[test]
fn output_before_the_last_call_is_not_repeated_after_a_kill() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let code = "from codebox import tools
tools.pay()
print('after', flush=True)
try: tools.slow()
except Exception as e: print(e.kind)";
    suspended(&shop.exec(&id, code, &[]));
    let ran = shop.resume(&id, "--approve");
    suspended(&ran);
    assert_eq!(ran.stdout_text(), "after\n");
    let mut resuming = shop.start_slow_call(&id);
    kill(shop.home.keeper());
    resuming.wait().expect("it ends");
    shop.wait_until_suspended(&id);
    assert_eq!(shop.resume(&id, "--continue").stdout_text(), "interrupted\n");
}
