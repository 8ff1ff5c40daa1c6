//! Execution of one job: its processes, its streams and its end.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use codebox_agent::{Ended, Run, Status, Word};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use crate::control_group;
use crate::doors::Doors;
use crate::line::Line;
use crate::oom_mark::OomMark;
use crate::watch::Watch;

/// Time limit for the port forwards to deliver the last data of a job's programs.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Receiver of a job's standard input. The input ends when the sender is dropped.
pub(crate) type Input = Receiver<Vec<u8>>;

/// Runs a job to its end and reports how it ended.
pub(crate) fn run(run: &Run, input: Input, mark: &OomMark, doors: &Doors, line: &Line) {
    let began = Instant::now();
    let before = control_group::read();
    let watch = Arc::new(Watch::default());
    let (wall, cpu) = (run.wall_ms.map(Duration::from_millis), run.cpu_ms.map(Duration::from_millis));
    let (status, pumps) = match start(run, mark) {
        Ok(mut child) => {
            line.send(&Word::Started);
            let main = Pid::from_child(&child);
            let watching = Arc::clone(&watch);
            thread::spawn(move || watching.watch(wall, cpu));
            let mut pumps = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                pumps.push(pump(stdout, line.clone(), Word::Stdout));
            }
            if let Some(stderr) = child.stderr.take() {
                pumps.push(pump(stderr, line.clone(), Word::Stderr));
            }
            if let Some(stdin) = child.stdin.take() {
                let line = line.clone();
                thread::spawn(move || feed(stdin, &input, &line));
            }
            (wait_for(main), pumps)
        }
        Err(error) => (Status::NotStarted(error.raw_os_error().unwrap_or(0)), Vec::new()),
    };
    let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let stop = watch.over();
    end_all();
    // All writers have ended, so every pump reaches the end of its stream.
    for pump in pumps {
        let _ = pump.join();
    }
    if stop.is_none() {
        // The wait counts towards the job's time limit.
        doors.last_words(wall.map_or(LAST_WORDS, |wall| wall.saturating_sub(began.elapsed()).min(LAST_WORDS)));
    }
    line.send(&Word::Ended(Ended { status, stop, wall_us, evidence: control_group::since(&before) }));
}

fn start(run: &Run, mark: &OomMark) -> io::Result<std::process::Child> {
    let Some((program, args)) = run.argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(program);
    command.args(args).env_clear();
    for name in &run.from_image {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(run.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&run.cwd).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    mark.while_raised(|| command.spawn())
}

/// Forwards a stream until its last writer has closed it.
fn pump(mut from: impl Read + Send + 'static, line: Line, word: fn(Vec<u8>) -> Word) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => line.send(&word(buffer[..count].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

/// Writes a job's input and requests more as the job reads it.
fn feed(mut stdin: ChildStdin, input: &Input, line: &Line) {
    while let Ok(bytes) = input.recv() {
        if stdin.write_all(&bytes).is_err() {
            // The job has closed its standard input.
            return;
        }
        line.send(&Word::Wants(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
    }
}

/// Waits for the job's first process, and reaps other processes that end before it.
fn wait_for(main: Pid) -> Status {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return told(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Status::NotStarted(0),
        }
    }
}

fn told(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, signal) => Status::Signalled(signal.unwrap_or(0)),
    }
}

/// Sends a signal to every process in the container except the agent.
pub(crate) fn signal_all(signal: Signal) {
    // This is `kill(-1)`, which signals every process and not a process group.
    let _ = kill_process_group(Pid::INIT, signal);
}

pub(crate) fn kill_all() {
    signal_all(Signal::KILL);
}

/// Kills every process except the agent, and returns when all of them have ended.
fn end_all() {
    loop {
        kill_all();
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => thread::sleep(Duration::from_micros(200)),
            Err(_) => return,
        }
    }
}
