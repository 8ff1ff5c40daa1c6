//! Programs whose streams are a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::support::{folder, kit, run_in};

/// Shows the three streams, the size and the variables of a program in Python.
const PYTHON: &str = "import os, sys, shutil\nprint([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)], [os.isatty(n) for n in range(4)])\ntry: print(tuple(os.get_terminal_size()))\nexcept (OSError, AttributeError): print('no size')\nprint(os.environ.get('TERM'), tuple(shutil.get_terminal_size((1, 2))))";

/// The same for JavaScript.
const JAVASCRIPT: &str = "const { stdin, stdout, stderr } = process; console.log([stdin.isTTY, stdout.isTTY, stderr.isTTY, require('tty').isatty(1), stdout.columns, stdout.rows, stdout.hasColors(256), stdout.getColorDepth()].map(String).join(' '))";

/// Returns a command that runs a line of shell at a new terminal.
fn at_new_terminal(line: &str) -> Command {
    let mut command = Command::new("script");
    // `script` runs the user's shell otherwise.
    command.args(["-qec", line, "/dev/null"]).env("SHELL", "/bin/sh").env("CODEBOX_HOME", kit().home());
    command
}

/// Runs codebox at a terminal of 33 rows and 101 columns, with this input, and returns what the terminal shows.
fn at_terminal(args: &[&str], input: &str) -> String {
    let dir = folder();
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', "'\\''"))).collect();
    let line = format!("stty rows 33 cols 101 -echo; exec '{}' {}", kit().binary().display(), quoted.join(" "));
    let mut command = at_new_terminal(&line);
    command.current_dir(dir.path());
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("COLORTERM");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("`script` starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

#[test]
fn streams_are_a_terminal() {
    let shown = at_terminal(&["run", "--isolation", "wasm", "-c", PYTHON], "");
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines.contains(&"[True, True, True] [True, True, True, False]"), "{shown}");
    assert!(lines.contains(&"(101, 33)") && lines.contains(&"xterm-256color (101, 33)"), "{shown}");
    let shown = at_terminal(&["run", "--isolation", "wasm", "--lang", "js", "-c", JAVASCRIPT], "");
    assert!(shown.contains("true true true true 101 33 true 8"), "{shown}");
}

#[test]
fn streams_are_pipes_for_programs_that_read_them() {
    for option in ["--no-tty", "--json"] {
        let shown = at_terminal(&["run", "--isolation", "wasm", option, "-c", PYTHON], "");
        assert!(shown.contains("[False, False, False]") && !shown.contains("xterm"), "{option}: {shown}");
    }
    let dir = folder();
    let piped = run_in(dir.path(), &["run", "--isolation", "wasm", "-c", PYTHON]).stdout_text();
    assert!(piped.starts_with("[False, False, False] [False, False, False, False]\nno size\n"), "{piped}");
    let asked = run_in(dir.path(), &["run", "-t", "--isolation", "wasm", "-c", PYTHON]).stdout_text();
    assert!(asked.starts_with("[True, True, True] [True, True, True, False]\n(80, 24)\n"), "{asked}");
    let script = run_in(dir.path(), &["run", "--isolation", "wasm", "--lang", "js", "-c", JAVASCRIPT]).stdout_text();
    assert_eq!(script, "undefined undefined undefined false undefined undefined false 1\n");
}

#[test]
fn prompts_and_lines_pass() {
    let program = "name = input('name: ')\nprint('hello', name)\nimport sys\nprint(sys.stdin.readline().strip(), end='')\nprint(repr(sys.stdin.read()))";
    let shown = at_terminal(&["run", "--isolation", "wasm", "-c", program], "Ann\nsecond\nrest\n\u{4}");
    assert!(shown.contains("name: hello Ann\nsecond'rest\\n'\n"), "{shown:?}");
}

#[test]
fn control_sequences_are_filtered() {
    let program = r"print('\x1b[31mred\x1b[0m \x1b[2Kline \x1b]0;title\x07 \x1b[2J \x1b[1A \x1b[?25l')";
    let shown = at_terminal(&["run", "--isolation", "wasm", "-c", program], "");
    assert!(
        shown.contains(
            "\u{1b}[31mred\u{1b}[0m \u{1b}[2Kline \u{241b}]0;title\u{2407} \u{241b}[2J \u{241b}[1A \u{1b}[?25l"
        ),
        "{shown:?}"
    );
    assert!(shown.ends_with("\u{1b}[?25h"), "{shown:?}");
}

/// Runs codebox at a terminal that shows what is typed, answers what it shows, and returns what the terminal shows, with its settings at
/// the end.
fn answered(args: &[&str], answers: &[(&str, &str)]) -> String {
    let dir = folder();
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', "'\\''"))).collect();
    // A key that ends codebox would end a shell without a trap as well.
    let line = format!("trap : INT; '{}' {}; stty -a", kit().binary().display(), quoted.join(" "));
    let mut command = at_new_terminal(&line);
    command.current_dir(dir.path());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("`script` starts");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let (mut shown, mut piece, mut answers) = (String::new(), [0; 4096], answers.iter());
    let mut next = answers.next();
    loop {
        let count = stdout.read(&mut piece).expect("it is read");
        if count == 0 {
            break;
        }
        shown.push_str(&String::from_utf8_lossy(&piece[..count]).replace('\r', ""));
        if let Some((prompt, answer)) = next
            && shown.ends_with(prompt)
        {
            stdin.write_all(answer.as_bytes()).expect("it is written");
            next = answers.next();
        }
    }
    child.wait().expect("it ends");
    assert!(next.is_none(), "{next:?}: {shown:?}");
    shown
}

fn has_usual_settings(shown: &str) -> bool {
    [" echo ", " icanon "].iter().all(|setting| shown.contains(setting))
}

#[test]
fn passwords_are_not_shown() {
    let program = "import getpass\nname = input('name: ')\nsecret = getpass.getpass('secret: ')\nprint(len(secret), name, input('last: '))";
    let answers = [("name: ", "Ann\n"), ("secret: ", "hidden-word\n"), ("last: ", "seen\n")];
    let shown = answered(&["run", "--isolation", "wasm", "-c", program], &answers);
    assert!(shown.contains("11 Ann seen\n") && shown.contains("last: seen\n"), "{shown:?}");
    assert!(!shown.contains("hidden-word") && has_usual_settings(&shown), "{shown:?}");
    // The mode is restored after a program that has left it.
    let program = "import termios\nmode = termios.tcgetattr(0)\nmode[3] &= ~termios.ECHO\ntermios.tcsetattr(0, termios.TCSANOW, mode)\nprint(len(input('secret: ')))\n1 / 0";
    let shown = answered(&["run", "--isolation", "wasm", "-c", program], &[("secret: ", "hidden-word\n")]);
    assert!(shown.contains("11\n") && !shown.contains("hidden-word") && has_usual_settings(&shown), "{shown:?}");
}

#[test]
fn keys_are_read_as_they_are_pressed() {
    let program = "import sys, termios, tty\nbefore = termios.tcgetattr(sys.stdin)\ntty.setcbreak(sys.stdin)\nprint('key: ', end='', flush=True)\nkey = sys.stdin.read(1)\ntermios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)\nprint(repr(key), input('line: '))";
    let shown = answered(&["run", "--isolation", "wasm", "-c", program], &[("key: ", "k"), ("line: ", "text\n")]);
    assert!(shown.contains("'k' text\n") && has_usual_settings(&shown), "{shown:?}");
    let program = "const readline = require('readline'); readline.emitKeypressEvents(process.stdin); process.stdin.setRawMode(true); process.stdout.write('keys: '); const seen = []; process.stdin.on('keypress', (text, key) => { seen.push(key.ctrl ? `ctrl-${key.name}` : key.name); process.stdout.write('.'); if (seen.length === 4) { process.stdin.setRawMode(false); console.log(seen.join(' ') + ' ' + process.stdin.isRaw); process.exit() } })";
    let answers = [("keys: ", "a"), ("keys: .", "\u{1b}[A"), ("..", "\r"), ("...", "\u{1}")];
    let shown = answered(&["run", "--isolation", "wasm", "--lang", "js", "-c", program], &answers);
    assert!(shown.contains("a up return ctrl-a false\n") && has_usual_settings(&shown), "{shown:?}");
}

#[test]
fn keys_that_end_codebox_keep_their_meaning() {
    let program = "import tty, sys\ntty.setraw(0)\nprint('wait: ', end='', flush=True)\nwhile True: sys.stdin.read(1)";
    let shown = answered(&["run", "--isolation", "wasm", "-c", program], &[("wait: ", "x\u{3}")]);
    assert!(shown.contains("cancelled") && has_usual_settings(&shown), "{shown:?}");
}

#[test]
fn programs_see_changes_of_the_size() {
    let python = "import shutil, time\nfirst = shutil.get_terminal_size().columns\nwhile shutil.get_terminal_size().columns == first: time.sleep(0.01)\nprint(sorted([first, shutil.get_terminal_size().columns]))";
    let javascript = "const first = process.stdout.columns; process.stdout.once('resize', () => { console.log(JSON.stringify([first, process.stdout.columns].sort())); process.exit() }); setTimeout(() => {}, 50000)";
    for (language, program, shown_as) in [("python", python, "[61, 99]"), ("js", javascript, "[61,99]")] {
        let quoted = program.replace('\'', "'\\''");
        // The size changes until the program has ended.
        let line = format!(
            "stty rows 20 cols 61; (while :; do sleep 0.5; stty cols 99 </dev/tty; sleep 0.5; stty cols 61 </dev/tty; done) & '{}' run --isolation wasm --lang {language} -c '{quoted}'; kill $!",
            kit().binary().display()
        );
        let output = at_new_terminal(&line).current_dir(folder().path()).stdin(Stdio::null()).output();
        let shown = String::from_utf8_lossy(&output.expect("`script` starts").stdout).into_owned();
        assert!(shown.contains(shown_as), "{language}: {shown:?}");
    }
}

#[test]
fn programs_in_the_background_of_a_terminal_end() {
    let dir = folder();
    std::fs::write(dir.path().join("a.py"), "print('ran')").expect("it is ours");
    let binary = kit().binary().display().to_string();
    // `timeout` starts a group of its own, which is not that of the terminal.
    let line = format!("timeout 60 '{binary}' run --isolation wasm a.py; echo status $?; stty -a");
    let mut command = at_new_terminal(&line);
    let output = command.current_dir(dir.path()).stdin(Stdio::null()).output().expect("`script` starts");
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(shown.contains("ran\n") && shown.contains("status 0\n") && has_usual_settings(&shown), "{shown:?}");
}
