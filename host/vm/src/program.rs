//! Programs that control virtual machines.

use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::{Layer, VmError};
use crate::provider::ByteStream;

/// Maximum number of bytes of each output that is kept, the first ones.
const MAX_OUTPUT: u64 = 1 << 20;

/// Time after the end of a program in which its output is read.
const STREAM_TIME: Duration = Duration::from_secs(1);

/// Shortest and longest pause between checks for the end of a program.
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// A program with the variables and the directory of all of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Name in messages.
    pub name: &'static str,
    pub path: PathBuf,
    pub env: Vec<(&'static str, OsString)>,
    /// Working directory.
    pub dir: PathBuf,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Exit status; `None` for a signal.
    pub status: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Program {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args).envs(self.env.iter().cloned()).current_dir(&self.dir);
        command
    }

    /// Calls the program with an input, and waits for its end. A call that takes longer is killed.
    pub(crate) fn call(&self, args: &[&str], input: Option<Vec<u8>>, limit: Duration) -> Result<Ended, VmError> {
        let action = args.iter().find(|arg| !arg.starts_with('-')).or(args.first()).copied().unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| {
            VmError::new(Layer::Hypervisor, format!("cannot call {} {action}: {error}", self.name), FIX)
        };
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut command = self.command(args);
        let spawned = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failed(&error))?;
        let (sender, ended) = mpsc::channel();
        for (number, stream) in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().enumerate()
        {
            let sender = sender.clone();
            thread::spawn(move || {
                let _ = sender.send((number, stream.map(read).unwrap_or_default()));
            });
        }
        drop(sender);
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            thread::spawn(move || stdin.write_all(&input));
        }
        let until = Instant::now() + limit;
        let mut pause = MIN_PAUSE;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| failed(&error))? {
                break status.code();
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(&format_args!("it has not ended within {} s", limit.as_secs())));
            }
            thread::sleep(pause);
            pause = (2 * pause).min(MAX_PAUSE);
        };
        let mut outputs = [Vec::new(), Vec::new()];
        // A process that it has started may keep the streams open.
        while let Ok((number, output)) = ended.recv_timeout(STREAM_TIME) {
            outputs[number] = output;
        }
        let [stdout, stderr] = outputs;
        Ok(Ended { status, stdout, stderr })
    }

    /// Starts the program, and returns its standard input and output as one stream. It is killed with the stream. Its standard error is
    /// appended to a file.
    pub(crate) fn stream(&self, args: &[&str], log: &Path) -> Result<Box<dyn ByteStream>, VmError> {
        let start = || -> io::Result<ChildStream> {
            let log = std::fs::File::options().append(true).create(true).open(log)?;
            let mut command = tokio::process::Command::from(self.command(args));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
            let mut child = command.spawn()?;
            let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            Ok(ChildStream { stdin: stdin.ok_or_else(missing)?, stdout: stdout.ok_or_else(missing)?, _child: child })
        };
        let started = start().map_err(|error| {
            VmError::new(Layer::Network, format!("cannot start {}: {error}", self.path.display()), FIX)
        })?;
        Ok(Box::new(started))
    }
}

const FIX: &str = "see codebox doctor";

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

/// Reads a stream to its end, and keeps its beginning.
fn read(mut stream: Box<dyn Read + Send>) -> Vec<u8> {
    let mut kept = Vec::new();
    let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut kept);
    let _ = io::copy(&mut stream, &mut io::sink());
    kept
}

/// Returns the file of a program on the search path, or in one of these directories.
pub(crate) fn find(name: &str, more: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Standard input and output of a process.
struct ChildStream {
    stdin: tokio::process::ChildStdin,
    stdout: tokio::process::ChildStdout,
    _child: tokio::process::Child,
}

impl AsyncRead for ChildStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ChildStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // WSL reads an empty write as the end of the input.
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        Pin::new(&mut self.stdin).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_shutdown(cx)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell() -> Program {
        Program { name: "sh", path: "/bin/sh".into(), env: vec![("WORD", "x y".into())], dir: "/".into() }
    }

    #[test]
    fn calls_pass_input_and_output() {
        let script = "cat; echo \"$WORD\" >&2; pwd >&2; exit 3";
        let input = vec![7; 300_000];
        let ended = shell().call(&["-c", script], Some(input.clone()), Duration::from_secs(60));
        assert_eq!(ended, Ok(Ended { status: Some(3), stdout: input, stderr: b"x y\n/\n".to_vec() }));
    }

    /// Programs of hypervisors can hang, also with a child that keeps their output open.
    #[test]
    fn calls_that_take_too_long_fail() {
        let failed = shell().call(&["-c", "sleep 30 & wait"], None, Duration::from_secs(1)).expect_err("it hangs");
        assert!(failed.reason.contains("it has not ended within 1 s"), "{failed:?}");
        let ended = shell().call(&["-c", "sleep 30 & exit 4"], None, Duration::from_secs(60)).expect("it ends");
        assert_eq!(ended.status, Some(4));
    }

    #[test]
    fn long_outputs_are_cut() {
        let ended = shell().call(&["-c", "head -c 3000000 /dev/zero"], None, Duration::from_secs(60)).expect("it ends");
        assert_eq!((ended.status, ended.stdout.len()), (Some(0), 1 << 20));
    }
}
