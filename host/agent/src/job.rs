//! Execution of one job: its processes, its streams and its end.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_agent::{Event, JobExit, Run, Status};
use codebox_core::NotRun;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use crate::attached::JobUser;
use crate::cgroup;
use crate::oom_score::OomScore;
use crate::port_forwards::PortForwarder;
use crate::program;
use crate::pty;
use crate::reach::Reach;
use crate::watch::Watch;
use crate::work_dir;
use crate::writer::EventWriter;

/// Time limit for the port forwards to deliver the last data of a job's programs.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Receiver of a job's standard input. The input ends when the sender is dropped.
pub(crate) type Input = Receiver<Vec<u8>>;

/// Parts of the agent that its jobs use.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub oom_score: OomScore,
    pub port_forwards: PortForwarder,
    pub writer: EventWriter,
    pub reach: Reach,
    /// User of the jobs, if it is not that of the agent.
    pub user: Option<JobUser>,
    /// Master of the terminal of the current job.
    pub terminal: Arc<Mutex<Option<OwnedFd>>>,
}

/// Locks the terminal of the current job.
pub(crate) fn lock(terminal: &Mutex<Option<OwnedFd>>) -> MutexGuard<'_, Option<OwnedFd>> {
    terminal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job to its end and reports how it ended.
pub(crate) fn run(run: &Run, input: Input, context: &JobContext) {
    let JobContext { oom_score: _, port_forwards, writer, reach, user: _, terminal: _ } = context;
    let reach = *reach;
    let began = Instant::now();
    let before = cgroup::read();
    let watch = Arc::new(Watch::default());
    let (wall, cpu) = (run.wall_ms.map(Duration::from_millis), run.cpu_ms.map(Duration::from_millis));
    let (status, pumps) = match start(run, context) {
        Ok((mut child, master)) => {
            writer.send(&Event::Started);
            let main = Pid::from_child(&child);
            let watching = Arc::clone(&watch);
            thread::spawn(move || watching.watch(wall, cpu, || reach.kill()));
            let mut pumps = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                pumps.push(pump(stdout, writer.clone(), Event::Stdout));
            }
            if let Some(stderr) = child.stderr.take() {
                pumps.push(pump(stderr, writer.clone(), Event::Stderr));
            }
            let keys = master.as_ref().and_then(|master| Some((master.try_clone().ok()?, master.try_clone().ok()?)));
            if let Some((output, keys)) = keys {
                pumps.push(pump(File::from(output), writer.clone(), Event::Stdout));
                *lock(&context.terminal) = master;
                let writer = writer.clone();
                thread::spawn(move || write_keys(File::from(keys), &input, &writer));
            } else if let Some(stdin) = child.stdin.take() {
                let writer = writer.clone();
                thread::spawn(move || write_stdin(stdin, &input, &writer));
            }
            (wait_for_exit(main), pumps)
        }
        Err(error) => (Status::NotStarted(error.raw_os_error().unwrap_or(0)), Vec::new()),
    };
    let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let stop = watch.ended();
    reach.kill_and_reap();
    *lock(&context.terminal) = None;
    // All writers have ended, so every pump reaches the end of its stream.
    for pump in pumps {
        let _ = pump.join();
    }
    if stop.is_none() {
        // The wait counts towards the job's time limit.
        port_forwards.flush(wall.map_or(FLUSH_TIMEOUT, |wall| wall.saturating_sub(began.elapsed()).min(FLUSH_TIMEOUT)));
    }
    writer.send(&Event::JobExit(JobExit { status, stop, wall_us, evidence: cgroup::since(&before) }));
}

/// Starts the program. Returns the master of its terminal as well, if it has one.
fn start(run: &Run, context: &JobContext) -> io::Result<(Child, Option<OwnedFd>)> {
    let Some((program, args)) = run.argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = match (&context.user, run.terminal) {
        (None, None) => Command::new(program),
        (Some(user), _) => {
            let mut words = user.prefix().into_iter();
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).arg(find(run, program)?).arg(program);
            command
        }
        // The agent itself makes the terminal that of a new session, and then becomes the program.
        (None, Some(_)) => {
            let mut command = Command::new("/proc/self/exe");
            command.arg("terminal").arg(find(run, program)?).arg(program);
            command
        }
    };
    command.args(args).env_clear();
    for name in &run.from_image {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(run.env.iter().map(|(name, value)| (name, value)));
    // The directory of a container that codebox has made is its own.
    let dir = match context.reach {
        Reach::Container => None,
        Reach::Descendants => Some(
            work_dir::open(run.cwd.as_ref())
                .map_err(|error| error.raw_os_error().map_or(Errno::ACCESS.into(), io::Error::from_raw_os_error))?,
        ),
    };
    match &dir {
        None => command.current_dir(&run.cwd),
        Some(dir) => command.current_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())),
    };
    let master = match run.terminal.filter(|_| context.user.is_none()) {
        None => {
            command.process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
        Some(size) => {
            let (master, terminal) = pty::open(size)?;
            pty::prepare(&terminal, run.terminal_edits)?;
            command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
            Some(master)
        }
    };
    Ok((context.oom_score.while_raised(|| command.spawn())?, master))
}

/// Finds a program before its helper starts, which could not report that there is none of this name.
fn find(run: &Run, program: &str) -> io::Result<OsString> {
    if program.contains('/') {
        rustix::fs::access(Path::new(&run.cwd).join(program), rustix::fs::Access::EXEC_OK)?;
        return Ok(program.into());
    }
    let path = run.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone().into());
    let of_image = || std::env::var_os("PATH").filter(|_| run.from_image.iter().any(|name| name == "PATH"));
    let path: OsString = path.or_else(of_image).unwrap_or_else(|| program::DEFAULT_PATH.into());
    let found = program::find(program.as_ref(), &path).map_err(|not_run| match not_run {
        NotRun::NotFound(_) => io::Error::from_raw_os_error(Errno::NOENT.raw_os_error()),
        _ => io::Error::from_raw_os_error(Errno::ACCESS.raw_os_error()),
    })?;
    Ok(found.into())
}

/// Forwards a stream until its last writer has closed it.
fn pump(
    mut from: impl Read + Send + 'static,
    writer: EventWriter,
    event: fn(Vec<u8>) -> Event,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => writer.send(&event(buffer[..count].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

/// Writes a job's input and requests more as the job reads it.
fn write_stdin(mut stdin: ChildStdin, input: &Input, writer: &EventWriter) {
    while let Ok(bytes) = input.recv() {
        if stdin.write_all(&bytes).is_err() {
            // The job has closed its standard input.
            return;
        }
        writer.send(&Event::InputCredit(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
    }
}

/// Character by which a terminal ends the input of a program.
const END_OF_INPUT: u8 = 4;

/// Writes a job's input to its terminal, which has no end: it receives the character for it, after a line or twice.
fn write_keys(mut keys: File, input: &Input, writer: &EventWriter) {
    let mut is_line_start = true;
    while let Ok(bytes) = input.recv() {
        if keys.write_all(&bytes).is_err() {
            return;
        }
        is_line_start = bytes.last().map_or(is_line_start, |last| *last == b'\n');
        writer.send(&Event::InputCredit(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
    }
    let _ = keys.write_all(&[END_OF_INPUT; 2][usize::from(is_line_start)..]);
}

/// Waits for the job's first process, and reaps other processes that end before it.
fn wait_for_exit(main: Pid) -> Status {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return to_status(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Status::NotStarted(0),
        }
    }
}

fn to_status(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, signal) => Status::Signalled(signal.unwrap_or(0)),
    }
}
