//! `codebox repl`, in a terminal and without one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::Input;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

use crate::support::kit;

/// Maximum time until an expected text appears.
const TIMEOUT: Duration = Duration::from_secs(60);

fn home() -> TempDir {
    let folder = kit().folder().expect("a directory");
    kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
    folder
}

fn sessions(folder: &TempDir) -> usize {
    let list = kit().codebox().home(&folder.path().join("home")).args(["session", "list", "--json"]).run();
    let text = list.expect("it runs").stdout_text();
    let document: serde_json::Value = serde_json::from_str(&text).expect("a document");
    document["sessions"].as_array().map_or(0, Vec::len)
}

fn end(folder: &TempDir) {
    let _ = kit().codebox().home(&folder.path().join("home")).args(["session", "end"]).run();
}

/// The command in a terminal.
struct Terminal {
    child: Child,
    input: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(folder: &TempDir, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let open =
            || File::options().read(true).write(true).open(name.to_str().expect("it is UTF-8")).expect("it is ours");
        let command = kit().codebox().home(&folder.path().join("home")).arg("repl");
        let mut command = command.args(args.iter().map(|arg| (*arg).to_owned())).command();
        command.env("TERM", "xterm").stdin(open()).stdout(open()).stderr(Stdio::from(open()));
        let child = command.spawn().expect("it starts");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut output, mut answers) = (copy(&master), copy(&master));
        let text = Arc::clone(&shown);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let part = String::from_utf8_lossy(&bytes[..count]);
                // The editor asks for the position of the cursor.
                for _ in part.matches("\x1b[6n") {
                    let _ = answers.write_all(b"\x1b[1;1R");
                }
                text.lock().expect("a lock").push_str(&part);
            }
        });
        Self { child, input: copy(&master), shown }
    }

    /// Waits until a text has appeared since the last call, and forgets what was shown.
    #[track_caller]
    fn expect(&self, text: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let mut shown = self.shown.lock().expect("a lock");
            if let Some(at) = shown.find(text) {
                shown.drain(..at + text.len());
                return;
            }
            assert!(Instant::now() < until, "{text:?} has not appeared: {shown:?}");
            drop(shown);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types a text at a prompt.
    #[track_caller]
    fn type_at(&mut self, prompt: &str, text: &str) {
        self.expect(prompt);
        self.input.write_all(text.as_bytes()).expect("the terminal is open");
    }
}

fn copy(master: &OwnedFd) -> File {
    File::from(master.try_clone().expect("a descriptor"))
}

#[test]
fn cells_are_typed_in_a_terminal() {
    let folder = home();
    let mut terminal = Terminal::start(&folder, &[]);
    terminal.type_at(">>> ", "x = 41\r");
    terminal.type_at(">>> ", "x + 1\r");
    terminal.expect("42");
    terminal.type_at(">>> ", "if x:\r");
    terminal.type_at("... ", "    print('blo' + 'ck')\r");
    terminal.type_at("... ", "\r");
    terminal.expect("block");
    terminal.type_at(">>> ", "1 / 0\r");
    terminal.expect("ZeroDivisionError");
    // An error keeps the state, and terminal sequences of a guest are not passed on.
    terminal.type_at(">>> ", "print('\\x1b]0;title\\x07', x)\r");
    terminal.expect(" 41");
    assert_eq!(sessions(&folder), 1);
    terminal.type_at(">>> ", "\x04");
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(0));
    assert_eq!(sessions(&folder), 0);
    end(&folder);
}

#[test]
fn cells_in_javascript_are_typed_in_a_terminal() {
    let folder = home();
    let mut terminal = Terminal::start(&folder, &["--lang", "js"]);
    terminal.type_at("> ", "const f = (n) => {\r");
    terminal.type_at("  ", "return n * 2 }\r");
    terminal.type_at("> ", "f(21)\r");
    terminal.expect("42");
    terminal.type_at("> ", ".exit\r");
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(0));
    end(&folder);
}

#[test]
fn an_input_that_is_no_terminal_is_one_cell() {
    let folder = home();
    let repl = |args: &[&str], text: &str| {
        let command = kit().codebox().home(&folder.path().join("home")).arg("repl");
        let command = command.args(args.iter().map(|arg| (*arg).to_owned()));
        command.input(Input::Bytes(text.into())).run().expect("it runs")
    };
    let ran = repl(&[], "def f():\n    return 42\n\nprint('a')\nf()\n");
    assert_eq!((ran.code, ran.stdout_text().as_str(), ran.stderr_text().as_str()), (Some(0), "a\n42\n", ""));
    assert_eq!(repl(&["--lang", "js"], "process.exit(3)").code, Some(3));
    assert_eq!(sessions(&folder), 0);
    let kept = repl(&["--keep"], "x = 41");
    let id = kept.stdout_text();
    let cell = kit().codebox().home(&folder.path().join("home")).args(["session", "exec", id.trim(), "-c", "x + 1"]);
    assert_eq!(cell.run().expect("it runs").stdout_text(), "42\n");
    end(&folder);
}

/// A session of a terminal that is gone, or of a command that was ended, does not stay.
#[test]
fn signals_and_the_end_of_the_terminal_end_the_session() {
    let folder = home();
    let mut terminal = Terminal::start(&folder, &[]);
    terminal.type_at(">>> ", "1 + 1\r");
    terminal.expect("2");
    terminal.expect(">>> ");
    assert_eq!(sessions(&folder), 1);
    let pid = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(130));
    assert_eq!(sessions(&folder), 0);
    // The signal of a terminal that is closed.
    let mut terminal = Terminal::start(&folder, &[]);
    terminal.type_at(">>> ", "1 + 1\r");
    terminal.expect(">>> ");
    let pid = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it is ours");
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(130));
    assert_eq!(sessions(&folder), 0);
    end(&folder);
}
