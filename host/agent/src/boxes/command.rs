//! One command that the host has started.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use codebox_agent::command::{CommandEvent, CommandExit, CommandRequest, INPUT_WINDOW, MAX_OUTPUT_SIZE, OUTPUT_WINDOW};
use codebox_agent::{Event, Status, Stop};
use codebox_core::{BoxCommand, NotRun, WindowSize};
use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::BoxState;
use super::children::{Process, signal_group};
use super::stream::{InputStream, OutputStream};
use crate::cgroup;
use crate::program;
use crate::pty;
use crate::work_dir;

/// Most bytes that are read after the end of a process: the contents of the largest pipes for both streams.
const MAX_PIPE_SIZE: usize = 2 << 20;

/// Runs a command to its end.
pub(super) async fn run(
    number: u32,
    command: BoxCommand,
    requests: UnboundedReceiver<CommandRequest>,
    state: &BoxState,
) -> CommandExit {
    let began = Instant::now();
    let oom_before = cgroup::oom_kills();
    let (status, stop, not_run) = match start(&command, state) {
        Ok((mut running, wall)) => {
            running.deadline = wall.and_then(|wall| began.checked_add(wall));
            let (status, stop) = running.drive(number, requests, state).await;
            (status, stop, None)
        }
        Err(not_run) => (Status::Exited(program::status_of(&not_run).0), None, Some(not_run)),
    };
    let oom_kills = cgroup::oom_kills().zip(oom_before).map(|(now, before)| now.saturating_sub(before));
    let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    CommandExit { status, stop, not_run, wall_us, oom_kills }
}

/// A running command.
struct Running {
    process: Process,
    /// Standard output and standard error; a terminal has only one.
    outputs: [Option<OutputStream>; 2],
    stdin: Option<InputStream>,
    is_terminal: bool,
    input: VecDeque<Vec<u8>>,
    /// True once the end of the input has arrived.
    input_ended: bool,
    credit: u32,
    deadline: Option<Instant>,
}

fn start(command: &BoxCommand, state: &BoxState) -> Result<(Running, Option<Duration>), NotRun> {
    let malformed = || NotRun::NotExecutable("a word of the command line contains NUL".to_owned());
    let argv = command.argv.iter().map(|word| program::word(word)).collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
    let (argv0, args) = argv.split_first().ok_or_else(|| NotRun::NotFound(String::new()))?;
    let name = program::check(&state.settings.rules, argv0)?;
    let path = state.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path.as_str());
    let own_path = command.env.iter().rev().find(|(name, _)| name.as_slice() == b"PATH");
    let own_path = own_path.and_then(|(_, path)| program::word(path));
    let program_file = program::find(argv0, own_path.as_deref().unwrap_or(path.as_ref()))?;
    let mut started = match command.terminal {
        None => {
            let mut started = Command::new(&program_file);
            started.arg0(argv0).args(args).process_group(0);
            started
        }
        // The agent itself makes the terminal that of a new session, and then becomes the program.
        Some(_) => {
            let mut started = Command::new("/proc/self/exe");
            started.arg("terminal").arg(&program_file).arg(argv0).args(args);
            started
        }
    };
    started.env_clear().envs(state.env.iter().map(|(name, value)| (name, value)));
    for (name, value) in &command.env {
        let (name, value) = program::word(name).zip(program::word(value)).ok_or_else(malformed)?;
        started.env(name, value);
    }
    let cwd = match &command.cwd {
        Some(cwd) => program::word(cwd).ok_or_else(malformed)?,
        None => state.cwd.clone().into(),
    };
    let dir = work_dir::open(&cwd).map_err(|error| {
        NotRun::NotExecutable(format!("{}: cannot use the directory {}: {error}", argv0.display(), cwd.display()))
    })?;
    let running = match command.terminal {
        None => start_with_pipes(started, &dir, state),
        Some(size) => start_with_terminal(started, &dir, size, state),
    };
    let running = running.map_err(|error| program::not_started(argv0, &error))?;
    let limits = [command.wall, state.settings.rules.wall.get(&name).copied()];
    Ok((running, limits.into_iter().flatten().min()))
}

fn start_with_pipes(mut command: Command, dir: &OwnedFd, state: &BoxState) -> io::Result<Running> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = state.children.spawn(&mut command, dir)?;
    let child = &mut process.child;
    let stdout = child.stdout.take().map(|pipe| OutputStream::new(pipe.into())).transpose()?;
    let stderr = child.stderr.take().map(|pipe| OutputStream::new(pipe.into())).transpose()?;
    let stdin = child.stdin.take().map(|pipe| InputStream::new(pipe.into())).transpose()?;
    Ok(Running::new(process, [stdout, stderr], stdin, false))
}

fn start_with_terminal(mut command: Command, dir: &OwnedFd, size: WindowSize, state: &BoxState) -> io::Result<Running> {
    let (master, terminal) = pty::open(size)?;
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    let process = state.children.spawn(&mut command, dir)?;
    let input = InputStream::new(master.as_fd().try_clone_to_owned()?)?;
    Ok(Running::new(process, [Some(OutputStream::new(master)?), None], Some(input), true))
}

/// Event of a running command.
enum Next {
    Request(Option<CommandRequest>),
    Exited(Status),
    Output(usize, Vec<u8>),
    Written(io::Result<usize>),
    Overdue,
}

impl Running {
    fn new(
        process: Process,
        outputs: [Option<OutputStream>; 2],
        stdin: Option<InputStream>,
        is_terminal: bool,
    ) -> Self {
        let (input, input_ended, credit) = (VecDeque::new(), false, OUTPUT_WINDOW);
        Self { process, outputs, stdin, is_terminal, input, input_ended, credit, deadline: None }
    }

    /// Passes the streams on until the process has ended, and its output up to then is sent.
    ///
    /// Output that processes in the background write later is not passed on, so a command ends with its process.
    async fn drive(
        mut self,
        number: u32,
        mut requests: UnboundedReceiver<CommandRequest>,
        state: &BoxState,
    ) -> (Status, Option<Stop>) {
        let mut stop = None;
        let status = loop {
            self.close_finished_input();
            let next = {
                let Self { process, outputs: [stdout, stderr], stdin, input, credit, deadline, .. } = &mut self;
                let size = usize::try_from(*credit).map_or(MAX_OUTPUT_SIZE, |credit| credit.min(MAX_OUTPUT_SIZE));
                let deadline = deadline.filter(|_| stop.is_none());
                tokio::select! {
                    biased;
                    request = requests.recv() => Next::Request(request),
                    () = at(deadline) => Next::Overdue,
                    written = write_input(stdin.as_ref(), input) => Next::Written(written),
                    bytes = read_output(stdout.as_ref(), size) => Next::Output(0, bytes),
                    bytes = read_output(stderr.as_ref(), size) => Next::Output(1, bytes),
                    status = &mut process.exit => Next::Exited(status.unwrap_or(Status::NotStarted(0))),
                }
            };
            match next {
                Next::Request(Some(request)) => self.on_request(request),
                // The connection to the host has ended, and this process with it.
                Next::Request(None) => signal_group(self.process.pid, Signal::KILL),
                Next::Overdue => {
                    stop = Some(Stop::Wall);
                    signal_group(self.process.pid, Signal::KILL);
                }
                Next::Output(stream, bytes) => self.send_output(number, stream, bytes, state),
                Next::Written(written) => self.on_written(number, written, state),
                Next::Exited(status) => break status,
            }
        };
        // A process in the background may go on writing; a pipe has at most this many bytes of the command itself.
        let mut left = MAX_PIPE_SIZE;
        for stream in 0..self.outputs.len() {
            while self.outputs[stream].is_some() && left > 0 {
                if self.credit == 0 {
                    match requests.recv().await {
                        Some(request) => self.on_request(request),
                        None => return (status, stop),
                    }
                    continue;
                }
                let size = usize::try_from(self.credit).map_or(MAX_OUTPUT_SIZE, |credit| credit.min(MAX_OUTPUT_SIZE));
                let rest = self.outputs[stream].as_ref().and_then(|output| output.read_available(size));
                left = left.saturating_sub(rest.as_ref().map_or(0, Vec::len));
                self.send_output(number, stream, rest.unwrap_or_default(), state);
            }
        }
        (status, stop)
    }

    /// Sends output; an empty one is the end of the stream.
    fn send_output(&mut self, number: u32, stream: usize, bytes: Vec<u8>, state: &BoxState) {
        if bytes.is_empty() {
            self.outputs[stream] = None;
            return;
        }
        self.credit = self.credit.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let event = if stream == 0 { CommandEvent::Stdout(bytes) } else { CommandEvent::Stderr(bytes) };
        state.send(Event::Command(number, event));
    }

    fn on_request(&mut self, request: CommandRequest) {
        match request {
            // The window keeps the host from sending more than the agent accepts; the rest of a host that does is dropped.
            CommandRequest::Input(bytes) => {
                let waiting: usize = self.input.iter().map(Vec::len).sum();
                if self.stdin.is_some() && waiting + bytes.len() <= INPUT_WINDOW as usize && !bytes.is_empty() {
                    self.input.push_back(bytes);
                }
            }
            CommandRequest::InputEnd => self.input_ended = true,
            CommandRequest::OutputCredit(count) => {
                self.credit = self.credit.saturating_add(count).min(OUTPUT_WINDOW);
            }
            CommandRequest::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                    signal_group(self.process.pid, signal);
                }
            }
            CommandRequest::Resize(size) => {
                if let (true, Some(terminal)) = (self.is_terminal, &self.outputs[0]) {
                    pty::resize(terminal, size);
                }
            }
            CommandRequest::Abandon => {
                signal_group(self.process.pid, Signal::KILL);
                self.outputs = [None, None];
            }
            CommandRequest::Start(_) => {}
        }
    }

    fn on_written(&mut self, number: u32, written: io::Result<usize>, state: &BoxState) {
        let Some(first) = self.input.front_mut() else { return };
        match written {
            Ok(count) => {
                first.drain(..count);
                if first.is_empty() {
                    self.input.pop_front();
                }
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                state.send(Event::Command(number, CommandEvent::InputCredit(count)));
            }
            // The command has closed its standard input.
            Err(_) => {
                self.input.clear();
                self.stdin = None;
            }
        }
    }

    /// Closes the standard input once all of it has been written. A terminal has no end; it receives the character for it.
    fn close_finished_input(&mut self) {
        const END_OF_TRANSMISSION: u8 = 4;
        if self.input_ended && self.input.is_empty() {
            self.input_ended = false;
            if self.is_terminal {
                self.input.push_back(vec![END_OF_TRANSMISSION]);
            } else {
                self.stdin = None;
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Reads output, if the host accepts any.
async fn read_output(stream: Option<&OutputStream>, size: usize) -> Vec<u8> {
    match stream {
        Some(stream) if size > 0 => stream.read(size).await,
        _ => std::future::pending().await,
    }
}

async fn write_input(stdin: Option<&InputStream>, input: &VecDeque<Vec<u8>>) -> io::Result<usize> {
    match (stdin, input.front()) {
        (Some(stdin), Some(bytes)) => stdin.write(bytes).await,
        _ => std::future::pending().await,
    }
}
