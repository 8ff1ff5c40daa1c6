//! Programs in containers whose streams are a terminal.

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

/// Drives codebox at a terminal: writes lines when it shows something, and changes the size.
const DRIVER: &str = r"
import fcntl, os, pty, re, select, struct, sys, termios, time
def resize(fd, rows, columns): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
resize(fd, 33, 101)
steps = [(b'name: ', lambda: os.write(fd, b'Ann\n')), (b'resize now', lambda: resize(fd, 40, 120)), (b'secret: ', lambda: os.write(fd, b'hidden-word\n')), (b'key now', lambda: os.write(fd, b'k')), (b'end now', lambda: os.write(fd, b'last\n\x04'))]
shown = b''
while True:
    try: piece = os.read(fd, 65536)
    except OSError: break
    if not piece: break
    shown += piece
    if steps and steps[0][0] in shown:
        steps.pop(0)[1]()
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

const PROGRAM: &str = r"
import os, signal, sys, time
print([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)], tuple(os.get_terminal_size()), os.ttyname(0)[:9])
name = input('name: ')
print('hello', name, file=sys.stderr)
changed = []
signal.signal(signal.SIGWINCH, lambda *_: changed.append(tuple(os.get_terminal_size())))
print('resize now', flush=True)
while not changed: time.sleep(0.01)
print(changed[0])
import getpass, termios, tty
print(len(getpass.getpass('secret: ')))
before = termios.tcgetattr(0)
tty.setcbreak(0)
print('key now', flush=True)
print('key', os.read(0, 5))
termios.tcsetattr(0, termios.TCSANOW, before)
print('end now', flush=True)
print(repr(sys.stdin.read()))
sys.exit(7)
";

pub fn rows() -> Vec<Row> {
    vec![row("terminal::size_lines_and_end", size_lines_and_end), row("terminal::missing_program", missing_program)]
}

fn size_lines_and_end(test_env: &TestEnvironment) -> Result<()> {
    let dir = test_env.kit.folder()?;
    let (driver, program) = (dir.path().join("driver.py"), dir.path().join("program.py"));
    std::fs::write(&driver, DRIVER)?;
    std::fs::write(&program, PROGRAM)?;
    let run = test_env.run().arg(program.display().to_string()).command();
    let mut command = std::process::Command::new("python3");
    command.arg(&driver).arg(run.get_program()).args(run.get_args().filter(|arg| *arg != "--json"));
    for (name, value) in run.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.output()?;
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    ensure!(output.status.code() == Some(7), "{:?}: {shown}", output.status);
    for part in [
        "[True, True, True] (101, 33) /dev/pts/\n",
        // The terminal of the container echoes the line.
        "name: Ann\nhello Ann\n",
        "(120, 40)\n",
        "secret: \n11\n",
        "key b'k'\n",
        "'last\\n'\n",
    ] {
        ensure!(shown.contains(part), "{part:?} is missing: {shown:?}");
    }
    ensure!(!shown.contains("hidden-word"), "the terminal shows the password: {shown:?}");
    Ok(())
}

fn missing_program(test_env: &TestEnvironment) -> Result<()> {
    for (name, status) in [("no-such-program", 127), ("/no/such/program", 127), ("/etc/hostname", 126)] {
        let report = test_env.check_run(&test_env.run().args(["-t", "--", name]).run()?)?;
        ensure!(report.exit_code() == Some(status), "{name}: {report:?}");
    }
    Ok(())
}
