//! Cells that are suspended until a call is approved.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::ProcessResult;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::session_home::{SessionHome, kill};

/// A home with the tools `pay`, whose calls need an approval, `slow`, which is the same and does not end at once, and `look`. Each records its
/// inputs.
pub(crate) struct Shop {
    pub home: SessionHome,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let shop = Self { home: SessionHome::new() };
        let config = shop.home.home().join("config");
        fs::create_dir_all(&config).expect("a directory");
        let tool = |name: &str, rest: &str, more: &str| {
            let script = format!("cat >> {log}; echo >> {log}; {rest}", log = shop.log(name).display());
            format!("[tools.{name}]\ncommand = ['sh', '-c', {script:?}]\n{more}\n")
        };
        let text = [
            tool("pay", "echo 7", "approval = 'ask'"),
            tool("slow", "sleep 60; echo 8", "approval = 'ask'"),
            tool("look", "echo 5", ""),
        ];
        fs::write(config.join("config.toml"), text.concat()).expect("it is ours");
        shop
    }

    pub(crate) fn log(&self, tool: &str) -> PathBuf {
        self.home.0.path().join(format!("{tool}.log"))
    }

    /// Returns the inputs with which a tool was called.
    pub(crate) fn calls(&self, tool: &str) -> Vec<String> {
        fs::read_to_string(self.log(tool)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Runs a cell that may call the tools.
    pub(crate) fn exec(&self, id: &str, code: &str, options: &[&str]) -> ProcessResult {
        let tools = ["--tool", "pay", "--tool", "look", "--tool", "slow", "--suspend"];
        self.home.run(&[&["exec", id], &tools[..], options, &["-c", code]].concat())
    }

    pub(crate) fn resume(&self, id: &str, decision: &str) -> ProcessResult {
        self.home.run(&["resume", id, decision])
    }

    pub(crate) fn state(&self, id: &str) -> Value {
        self.home.json(&["show", id, "--json"])["state"].clone()
    }

    /// Waits until a cell that was stopped is suspended again.
    #[track_caller]
    pub(crate) fn wait_until_suspended(&self, id: &str) {
        let start = Instant::now();
        while self.state(id) != "suspended" {
            assert!(start.elapsed() < Duration::from_secs(30), "the cell goes on");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts to resume a session, and returns when the tool has been called.
    pub(crate) fn start_slow_call(&self, id: &str) -> Child {
        let child = self.home.command(&["resume", id, "--approve"]).command().stdout(Stdio::null()).spawn();
        let start = Instant::now();
        while self.calls("slow").is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "the tool is not called");
            thread::sleep(Duration::from_millis(5));
        }
        child.expect("it starts")
    }
}

#[track_caller]
pub(crate) fn suspended(ran: &ProcessResult) {
    assert_eq!(ran.code, Some(123), "{} {}", ran.stdout_text(), ran.stderr_text());
    assert!(ran.stderr_text().contains("codebox session resume"), "{}", ran.stderr_text());
}

const CELL: &str = "
import os, random, uuid
from codebox import tools
print('before', flush=True)
seen = tools.look(n=x)
nonce = f'{random.random()} {os.urandom(4).hex()} {uuid.uuid4()}'
open('/work/note', 'a').write('once')
paid = tools.pay(to='a', nonce=nonce)
print('after')
[x, seen, paid, open('/work/note').read()]
";

#[test]
fn a_call_is_approved_later() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "x = 1");
    let ran = shop.exec(&id, CELL, &[]);
    suspended(&ran);
    assert_eq!(ran.stdout_text(), "before\n");
    assert_eq!((shop.calls("look").len(), shop.calls("pay").len()), (1, 0));
    assert_eq!(shop.state(&id), "suspended");
    let shown = shop.home.json(&["show", &id, "--json"]);
    let input = shown["suspended"]["input"].as_str().expect("an input").to_owned();
    assert_eq!(shown["suspended"]["name"], "pay");
    for refused in [&["exec", &id, "-c", "1"][..], &["fork", &id], &["checkpoint", &id, "--name", "a"]] {
        let ran = shop.home.run(refused);
        assert!(ran.code != Some(0) && ran.stderr_text().contains("is suspended"), "{}", ran.stderr_text());
    }
    // On a later day, in another process.
    kill(shop.home.keeper());
    assert_eq!(shop.state(&id), "suspended");
    let ran = shop.resume(&id, "--approve");
    assert_eq!(
        (ran.code, ran.stdout_text().as_str()),
        (Some(0), "after\n[1, 5, 7, 'once']\n"),
        "{}",
        ran.stderr_text()
    );
    // The call has the random numbers of the first run, and no call was made twice.
    let normal = |text: &str| serde_json::from_str::<Value>(text).expect("an input");
    assert_eq!(shop.calls("pay").iter().map(|call| normal(call)).collect::<Vec<_>>(), [normal(&input)]);
    assert_eq!(shop.calls("look").len(), 1);
    assert_eq!(shop.home.exec(&id, "[x, paid]"), "[1, 7]\n");
    assert!(shop.resume(&id, "--approve").stderr_text().contains("is not suspended"));
}

#[test]
fn a_call_is_denied_or_its_cell_is_discarded() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "x = 1");
    suspended(&shop.exec(&id, &format!("y = 2\n{CELL}"), &[]));
    let ran = shop.resume(&id, "--deny");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr_text());
    assert!(ran.stderr_text().contains("the call of the tool pay was not approved"), "{}", ran.stderr_text());
    assert_eq!(ran.stdout_text(), "");
    // The failure is an exception, and the state stays.
    assert_eq!(shop.home.exec(&id, "[x, y, seen]"), "[1, 2, 5]\n");
    suspended(&shop.exec(&id, "x = 3; tools.pay()", &[]));
    assert_eq!(shop.resume(&id, "--discard").code, Some(0));
    assert_eq!(shop.home.exec(&id, "x"), "1\n");
    assert_eq!(shop.calls("pay").len(), 0);
}

#[test]
fn the_first_cell_and_several_calls_are_suspended() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    let code = "from codebox import tools\n[(print(n), tools.pay(n=n))[1] for n in range(3)]";
    let ran = shop.exec(&id, code, &["--json"]);
    assert_eq!(ran.code, Some(123), "{}", ran.stderr_text());
    let report: Value = serde_json::from_str(&ran.stdout_text()).expect("a report");
    assert_eq!(report["outcome"]["type"], "suspended");
    let waiting = &report["session"]["suspended"];
    assert_eq!((&waiting["name"], &waiting["input"]), (&"pay".into(), &"{\"n\":0}".into()));
    for (number, expected) in ["1\n", "2\n"].into_iter().enumerate() {
        let ran = shop.resume(&id, "--approve");
        suspended(&ran);
        assert_eq!(ran.stdout_text(), expected);
        assert_eq!(shop.calls("pay").len(), number + 1);
        if number == 0 {
            shop.home.ok(&["end"]);
        }
    }
    assert_eq!(shop.resume(&id, "--approve").stdout_text(), "[7, 7, 7]\n");
    assert_eq!(shop.calls("pay").len(), 3);
}

#[test]
fn cells_in_javascript_are_suspended() {
    let shop = Shop::new();
    let id = shop.home.ok(&["new", "--lang", "js"]).trim().to_owned();
    shop.home.exec(&id, "var x = 1");
    let code = "import { tools } from 'codebox';
const nonce = `${Math.random()} ${crypto.randomUUID()}`;
console.log('before');
const seen = await tools.look({});
const paid = await tools.pay({ nonce });
[x, seen, paid]";
    let ran = shop.exec(&id, code, &[]);
    suspended(&ran);
    let input = shop.home.json(&["show", &id, "--json"])["suspended"]["input"].clone();
    let ran = shop.resume(&id, "--approve");
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "[ 1, 5, 7 ]\n"), "{}", ran.stderr_text());
    assert_eq!(shop.calls("pay"), [input.as_str().expect("an input")]);
    assert_eq!(shop.calls("look").len(), 1);
}

/// The call was made, and its result is lost: it is not made again, and the cell learns that.
#[test]
fn a_call_is_not_made_again_after_a_kill() {
    for kills_the_client in [false, true] {
        let shop = Shop::new();
        let id = shop.home.new_session();
        suspended(&shop.exec(
            &id,
            "from codebox import tools\ntry: tools.slow()\nexcept Exception as e: print(e.kind)",
            &[],
        ));
        let mut resuming = shop.start_slow_call(&id);
        let pid = if kills_the_client { resuming.id().cast_signed() } else { shop.home.keeper() };
        rustix::process::kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL).expect("it is ours");
        resuming.wait().expect("it ends");
        shop.wait_until_suspended(&id);
        // The call was decided.
        for decision in ["--approve", "--deny"] {
            let ran = shop.resume(&id, decision);
            assert!(ran.code == Some(125) && ran.stderr_text().contains("--continue"), "{}", ran.stderr_text());
        }
        let ran = shop.resume(&id, "--continue");
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "interrupted\n"), "{}", ran.stderr_text());
        assert_eq!(shop.calls("slow").len(), 1);
    }
}

#[test]
fn cells_with_other_effects_are_not_suspended() {
    let shop = Shop::new();
    let dir = shop.home.0.path().join("granted");
    fs::create_dir(&dir).expect("a directory");
    let id = shop.home.ok(&["new", "--dir", &format!("{}:/data:rw", dir.display())]).trim().to_owned();
    let code = "from codebox import tools\nopen('/data/x', 'a').write('x')\ntools.pay()";
    let ran = shop.exec(&id, code, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr_text());
    assert!(ran.stderr_text().contains("cannot be suspended: it has changed files"), "{}", ran.stderr_text());
    // The state is kept, with what cannot be saved.
    shop.home.exec(&id, "f = open('/work/open', 'w')");
    let ran = shop.exec(&id, "tools.pay()", &[]);
    assert!(
        ran.stderr_text().contains("cannot be suspended: ") && ran.stderr_text().contains("work/open"),
        "{}",
        ran.stderr_text()
    );
    assert_eq!(shop.home.exec(&id, "f.closed"), "False\n");
    assert_eq!(fs::read_to_string(dir.join("x")).expect("a file"), "x");
    assert_eq!(shop.calls("pay").len(), 0);
}

#[test]
fn a_cell_that_takes_another_course_is_refused() {
    let shop = Shop::new();
    let dir = shop.home.0.path().join("granted");
    fs::create_dir(&dir).expect("a directory");
    fs::write(dir.join("name"), "look").expect("it is ours");
    let id = shop.home.ok(&["new", "--dir", &format!("{}:/data", dir.display())]).trim().to_owned();
    let code = "from codebox import tools\ntools[open('/data/name').read()](to='a')\ntools.pay()";
    suspended(&shop.exec(&id, code, &[]));
    fs::write(dir.join("name"), "slow").expect("it is ours");
    let ran = shop.resume(&id, "--approve");
    assert!(ran.code == Some(125) && ran.stderr_text().contains("took another course"), "{}", ran.stderr_text());
    assert_eq!((shop.state(&id), shop.calls("slow").len(), shop.calls("pay").len()), ("suspended".into(), 0, 0));
    fs::write(dir.join("name"), "look").expect("it is ours");
    assert_eq!(shop.resume(&id, "--approve").stdout_text(), "7\n");
    assert_eq!((shop.calls("look").len(), shop.calls("pay").len()), (1, 1));
}

/// A cell that was stopped after the decision is run on, unless that would repeat its effects.
#[test]
fn a_stopped_cell_goes_on_without_repeating_effects() {
    let shop = Shop::new();
    let dir = shop.home.0.path().join("granted");
    fs::create_dir(&dir).expect("a directory");
    let grant = format!("{}:/data:rw", dir.display());
    let cell = |effect: &str| {
        format!(
            "from codebox import tools\nimport time\ntools.pay(n=1)\n{effect}\nprint('after', flush=True)\ntime.sleep(9)"
        )
    };
    // A cell that is stopped while it could change granted directories counts as one that has changed them.
    for (grants, effect, is_repeatable) in
        [(&[][..], "", true), (&["--dir", &grant][..], "open('/data/log', 'a').write('x')", false)]
    {
        let id = shop.home.ok(&[&["new"], grants].concat()).trim().to_owned();
        suspended(&shop.exec(&id, &cell(effect), &["--timeout", "300ms"]));
        let ran = shop.resume(&id, "--approve");
        assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(124), "after\n"), "{}", ran.stderr_text());
        assert_eq!(shop.state(&id), "suspended");
        let ran = shop.resume(&id, "--continue");
        match is_repeatable {
            // It reaches its limit again, and its output is not repeated.
            true => assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(124), ""), "{}", ran.stderr_text()),
            false => assert!(ran.code == Some(125) && ran.stderr_text().contains("--discard"), "{}", ran.stderr_text()),
        }
        assert_eq!(shop.resume(&id, "--discard").code, Some(0));
    }
    assert_eq!(fs::read_to_string(dir.join("log")).expect("a file"), "x");
    assert_eq!(shop.calls("pay").len(), 2);
}

/// Two commands decide at the same time: only the call that both have seen is made.
#[test]
fn a_decision_is_about_one_call() {
    let shop = Shop::new();
    for round in 0..4 {
        let id = shop.home.new_session();
        suspended(&shop.exec(&id, "from codebox import tools\ntools.pay(n=1); tools.pay(n=2)", &[]));
        let resume = || {
            let mut command = shop.home.command(&["resume", &id, "--approve"]).command();
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
        };
        let mut both = [resume(), resume()];
        for one in &mut both {
            one.wait().expect("it ends");
        }
        assert_eq!(shop.state(&id), "suspended");
        assert_eq!(shop.calls("pay").len(), round + 1);
    }
}

/// A cell that goes on is not discarded, and requests that wait for it are refused when it is suspended again.
#[test]
fn a_cell_that_goes_on_is_not_discarded() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "x = 'old'");
    let code = "from codebox import tools\ntry: tools.slow(n=1)\nfinally: tools.pay(n=2)";
    suspended(&shop.exec(&id, code, &[]));
    let mut resuming = shop.start_slow_call(&id);
    let ran = shop.resume(&id, "--discard");
    assert!(ran.code == Some(125) && ran.stderr_text().contains("is in use"), "{}", ran.stderr_text());
    let mut queued = shop.home.command(&["exec", &id, "-c", "x = 'queued'"]).command();
    let mut queued = queued.stderr(Stdio::null()).spawn().expect("it starts");
    thread::sleep(Duration::from_millis(200));
    resuming.kill().expect("it is ours");
    resuming.wait().expect("it ends");
    assert_eq!(queued.wait().expect("it ends").code(), Some(125));
    assert_eq!(shop.resume(&id, "--discard").code, Some(0));
    assert_eq!(shop.home.exec(&id, "x"), "'old'\n");
}

#[test]
fn a_damaged_record_affects_its_cell_alone() {
    let shop = Shop::new();
    let id = shop.home.new_session();
    shop.home.exec(&id, "x = 1");
    suspended(&shop.exec(&id, "from codebox import tools\ntools.pay(n=1)", &[]));
    shop.home.ok(&["end"]);
    let journal = shop.home.saved(&id).join("cell.journal");
    let text = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, text + "{\"bad\":1}\n").expect("it is ours");
    let ran = shop.resume(&id, "--approve");
    assert!(ran.code == Some(125) && ran.stderr_text().contains("is damaged"), "{}", ran.stderr_text());
    assert_eq!(shop.state(&id), "suspended");
    assert_eq!(shop.resume(&id, "--discard").code, Some(0));
    assert_eq!(shop.home.exec(&id, "x"), "1\n");
}
