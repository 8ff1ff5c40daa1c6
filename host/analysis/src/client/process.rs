//! One analyzer process: start, exchanges and end.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::program::Program;
use crate::protocol::{REPORT_HEADER_SIZE, Report};

/// The number of retries of a start while another process still has the program file open for writing.
const MAX_START_RETRIES: u32 = 20;

/// An analyzer process. It ends when the value is dropped.
pub(super) struct Process {
    child: Child,
    requests: Option<OwnedFd>,
    reports: Option<OwnedFd>,
}

/// The reason why an exchange with an analyzer failed.
pub(super) enum ExchangeError {
    /// The analyzer did not answer in time.
    Timeout,
    /// The analyzer ended or violated the protocol.
    Failed(String),
}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Errno> for ExchangeError {
    fn from(error: Errno) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Process {
    /// Starts the program with an empty environment and only the two pipes.
    ///
    /// The process does not use a parent-death signal, which the kernel would send at the end of the starting thread.
    /// It ends when its request pipe is closed.
    pub(super) fn start(program: &Program) -> io::Result<Self> {
        let mut tries = 0;
        let mut child = loop {
            let mut command = program.command();
            command.arg(if cfg!(target_os = "linux") { "serve" } else { "serve-one" });
            command.env_clear().current_dir("/").process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            match command.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < MAX_START_RETRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
                spawned => break spawned?,
            }
        };
        let requests = child.stdin.take().map(OwnedFd::from);
        let reports = child.stdout.take().map(OwnedFd::from);
        // From here on, dropping the value ends the process on every error.
        let process = Self { child, requests, reports };
        for pipe in [&process.requests, &process.reports].into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(process)
    }

    /// Sends a request and waits until `deadline` for the report, whose answer has at most `max_answer_len` bytes.
    pub(super) fn exchange(
        &mut self,
        request: &[u8],
        max_answer_len: usize,
        deadline: Instant,
    ) -> Result<(Report, Vec<u8>), ExchangeError> {
        let (Some(requests), Some(reports)) = (&self.requests, &self.reports) else {
            return Err(ExchangeError::Failed("process has exited".to_owned()));
        };
        let mut left = request;
        while !left.is_empty() {
            wait_for(requests, PollFlags::OUT, deadline)?;
            match rustix::io::write(requests, left) {
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut head = [0; REPORT_HEADER_SIZE];
        read_exact(reports, &mut head, deadline)?;
        let report = Report::decode(&head, max_answer_len).map_err(|error| ExchangeError::Failed(error.to_string()))?;
        let mut answer = vec![0; report.answer];
        read_exact(reports, &mut answer, deadline)?;
        Ok((report, answer))
    }

    /// Returns true if the process can serve another request.
    pub(super) fn is_reusable(&self) -> bool {
        cfg!(target_os = "linux")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closing the request pipe ends the process, even if this process may no longer send signals or wait.
        self.requests = None;
        self.reports = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_exact(from: &OwnedFd, buffer: &mut [u8], deadline: Instant) -> Result<(), ExchangeError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        wait_for(from, PollFlags::IN, deadline)?;
        match rustix::io::read(from, rest) {
            Ok(0) => return Err(ExchangeError::Failed("process exited without a response".to_owned())),
            Ok(count) => filled += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for(pipe: &OwnedFd, events: PollFlags, deadline: Instant) -> Result<(), ExchangeError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ExchangeError::Timeout);
        }
        let timeout = Timespec::try_from(left).map_err(|_| ExchangeError::Timeout)?;
        match poll(&mut [PollFd::from_borrowed_fd(pipe.as_fd(), events)], Some(&timeout)) {
            Ok(0) => return Err(ExchangeError::Timeout),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
