//! Execution of one job: its processes, its streams and its end.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use codebox_agent::{Event, JobExit, Run, Status};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use crate::cgroup;
use crate::oom_score::OomScore;
use crate::port_forwards::PortForwarder;
use crate::watch::Watch;
use crate::writer::EventWriter;

/// Time limit for the port forwards to deliver the last data of a job's programs.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Receiver of a job's standard input. The input ends when the sender is dropped.
pub(crate) type Input = Receiver<Vec<u8>>;

/// Runs a job to its end and reports how it ended.
pub(crate) fn run(run: &Run, input: Input, oom_score: &OomScore, port_forwards: &PortForwarder, writer: &EventWriter) {
    let began = Instant::now();
    let before = cgroup::read();
    let watch = Arc::new(Watch::default());
    let (wall, cpu) = (run.wall_ms.map(Duration::from_millis), run.cpu_ms.map(Duration::from_millis));
    let (status, pumps) = match start(run, oom_score) {
        Ok(mut child) => {
            writer.send(&Event::Started);
            let main = Pid::from_child(&child);
            let watching = Arc::clone(&watch);
            thread::spawn(move || watching.watch(wall, cpu, kill_all));
            let mut pumps = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                pumps.push(pump(stdout, writer.clone(), Event::Stdout));
            }
            if let Some(stderr) = child.stderr.take() {
                pumps.push(pump(stderr, writer.clone(), Event::Stderr));
            }
            if let Some(stdin) = child.stdin.take() {
                let writer = writer.clone();
                thread::spawn(move || write_stdin(stdin, &input, &writer));
            }
            (wait_for_exit(main), pumps)
        }
        Err(error) => (Status::NotStarted(error.raw_os_error().unwrap_or(0)), Vec::new()),
    };
    let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let stop = watch.ended();
    kill_and_reap_all();
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

fn start(run: &Run, oom_score: &OomScore) -> io::Result<std::process::Child> {
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
    oom_score.while_raised(|| command.spawn())
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

/// Waits for the job's first process, and reaps other processes that end before it.
fn wait_for_exit(main: Pid) -> Status {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return to_status(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
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

/// Sends a signal to every process in the container except the agent.
pub(crate) fn signal_all(signal: Signal) {
    // This is `kill(-1)`, which signals every process and not a process group.
    let _ = kill_process_group(Pid::INIT, signal);
}

pub(crate) fn kill_all() {
    signal_all(Signal::KILL);
}

/// Kills every process except the agent, and returns when all of them have ended.
fn kill_and_reap_all() {
    loop {
        kill_all();
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => thread::sleep(Duration::from_micros(200)),
            Err(_) => return,
        }
    }
}
