//! Commands with a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Sandbox;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("box::terminal", terminal)]
}

/// Reads until a text appears.
fn expect(master: &mut File, seen: &mut String, text: &str) -> Result<()> {
    let mut buffer = [0; 1024];
    while !seen.contains(text) {
        let count = master.read(&mut buffer).with_context(|| format!("{text:?} is not in {seen:?}"))?;
        ensure!(count > 0, "{text:?} is not in {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    let at = seen.find(text).unwrap_or(0) + text.len();
    seen.drain(..at);
    Ok(())
}

fn terminal(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master).and_then(|()| unlockpt(&master))?;
    let size = |rows, columns| Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size(33, 99))?;
    let name = ptsname(&master, Vec::new())?;
    let open = || File::options().read(true).write(true).open(name.to_str().expect("it is UTF-8"));
    let mut command = sandbox.exec_with(&["--tty"]).args(["bash", "--norc"]).command();
    command.env("TERM", "xterm").stdin(open()?).stdout(open()?).stderr(Stdio::from(open()?));
    let mut child = command.spawn()?;
    drop(command);
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).context("a process")?;
    let (mut master, mut seen) = (File::from(master), String::new());
    expect(&mut master, &mut seen, "$ ")?;
    let mut check = |typed: &str, shown: &str| -> Result<()> {
        master.write_all(typed.as_bytes())?;
        expect(&mut master, &mut seen, shown)
    };
    check("echo si''ze $(stty size) $TERM; tty\r", "size 33 99 xterm")?;
    // Shims have the terminal as well.
    check("echo g''o; cat | head -n 1; echo ri''ght\r", "go\r\n")?;
    // The terminal shows what is typed, and the command prints it.
    check("typed\r", "typed\r\ntyped\r\n")?;
    check("\x04", "right")?;
    check("[ -t 0 ] && echo a ter''minal\r", "a terminal")?;
    // A key interrupts the command in the foreground alone.
    check("bash -c \"echo wa''iting; sleep 600\"\r", "waiting\r\n")?;
    check("\x03", "$ ")?;
    check("echo af''ter $?\r", "after 130")?;
    tcsetwinsize(&master, size(20, 70))?;
    rustix::process::kill_process(pid, rustix::process::Signal::WINCH)?;
    master.write_all(b"sleep 0.3; echo si''ze $(stty size)\r")?;
    expect(&mut master, &mut seen, "size 20 70")?;
    master.write_all(b"exit 6\r")?;
    let status = child.wait()?;
    ensure!(status.code() == Some(6), "{status:?}");
    // Without a terminal as standard input there is none to pass on.
    let refused = sandbox.exec_with(&["--tty"]).arg("true").run()?;
    ensure!(refused.code == Some(125) && refused.stderr_text().contains("terminal"), "{}", refused.stderr_text());
    Ok(())
}
