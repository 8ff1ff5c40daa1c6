//! The monitor of QEMU: JSON over a socket.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns true if a machine has this monitor.
pub(super) fn is_running(socket: &Path) -> io::Result<bool> {
    Ok(connect(socket)?.is_some())
}

/// Ends the machine at once. One that does not run is no error.
pub(super) fn kill(socket: &Path) -> io::Result<()> {
    let Some(stream) = connect(socket)? else { return Ok(()) };
    let process = rustix::net::sockopt::socket_peercred(&stream)?.pid;
    if quit(&stream).is_err() {
        kill_now(process);
    }
    // The socket refuses connections when the process has ended.
    let until = std::time::Instant::now() + 2 * TIMEOUT;
    while is_running(socket)? {
        if std::time::Instant::now() > until {
            kill_now(process);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "QEMU has not ended"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn kill_now(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
}

fn quit(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    for command in ["qmp_capabilities", "quit"] {
        (&*stream).write_all(format!("{{\"execute\":\"{command}\"}}\n").as_bytes())?;
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(())
}

fn connect(socket: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error),
    }
}
