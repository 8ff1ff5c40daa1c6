//! Child processes that run to their end or are killed at a deadline.

use std::fs;
use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::Report;

/// Interval at which a running process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// Content of a process's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// End of file at once.
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// This many zero bytes.
    Zeroes(u64),
    /// An open pipe without data.
    Silent,
}

/// Result of a finished process.
#[derive(Debug, Clone)]
pub struct ProcessResult {
    /// Exit status, unless a signal ended the process.
    pub code: Option<i32>,
    /// Signal that ended the process.
    pub signal: Option<i32>,
    /// True if the process exceeded its deadline and was killed.
    pub timed_out: bool,
    /// Captured standard output.
    pub stdout: Vec<u8>,
    /// Captured standard error.
    pub stderr: Vec<u8>,
    /// Time from the start to the end of the process.
    pub wall: Duration,
    /// Highest resident memory that was observed, in bytes.
    pub peak_rss: u64,
    /// Highest number of threads that was observed.
    pub peak_threads: u64,
}

impl ProcessResult {
    /// Returns the standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns the standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Parses the JSON report that the process printed.
    ///
    /// # Errors
    /// Fails if the output is not a JSON document; the message includes the output.
    pub fn report(&self) -> Result<Report> {
        let document = serde_json::from_slice(&self.stdout).with_context(|| {
            let (code, signal, timed_out) = (self.code, self.signal, self.timed_out);
            let stdout_excerpt: String = self.stdout_text().chars().take(2000).collect();
            let stderr_excerpt: String = self.stderr_text().chars().take(2000).collect();
            format!("no report; code {code:?}, signal {signal:?}, timed out {timed_out}\nstdout: {stdout_excerpt}\nstderr: {stderr_excerpt}")
        })?;
        Ok(Report::new(document))
    }
}

/// Runs `command` to its end and kills it if it exceeds `deadline`.
pub(crate) fn run(mut command: Command, input: Input, deadline: Duration) -> Result<ProcessResult> {
    let stdin = if input == Input::Empty { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let feeding = feed(&mut child, input);
    let mut watch = Watch::default();
    let (status, timed_out) = watch.wait_until(&mut child, began + deadline)?;
    let wall = began.elapsed();
    drop(feeding);
    let stdout = collect(stdout)?;
    let stderr = collect(stderr)?;
    let Watch { peak_rss, peak_threads } = watch;
    Ok(ProcessResult {
        code: status.code(),
        signal: signal(status),
        timed_out,
        stdout,
        stderr,
        wall,
        peak_rss,
        peak_threads,
    })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    })
}

fn collect(reader: JoinHandle<std::io::Result<Vec<u8>>>) -> Result<Vec<u8>> {
    let read = reader.join().map_err(|_| anyhow::anyhow!("the thread that read the output panicked"))?;
    Ok(read?)
}

/// Writes the input on a separate thread. The returned pipe keeps a silent input open until it is dropped.
fn feed(child: &mut Child, input: Input) -> Option<std::process::ChildStdin> {
    let mut pipe = child.stdin.take()?;
    match input {
        Input::Empty => None,
        Input::Silent => Some(pipe),
        Input::Bytes(bytes) => {
            // The write may fail, because a program need not read its input.
            thread::spawn(move || pipe.write_all(&bytes).is_ok());
            None
        }
        Input::Zeroes(count) => {
            thread::spawn(move || std::io::copy(&mut std::io::repeat(0).take(count), &mut pipe).is_ok());
            None
        }
    }
}

#[derive(Default)]
struct Watch {
    peak_rss: u64,
    peak_threads: u64,
}

impl Watch {
    fn wait_until(&mut self, child: &mut Child, deadline: Instant) -> Result<(ExitStatus, bool)> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, false));
            }
            if Instant::now() >= deadline {
                child.kill()?;
                return Ok((child.wait()?, true));
            }
            self.sample(child.id());
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn sample(&mut self, id: u32) {
        let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else { return };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        self.peak_rss = self.peak_rss.max(field("VmHWM:").unwrap_or(0) << 10);
        self.peak_threads = self.peak_threads.max(field("Threads:").unwrap_or(0));
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}
