//! Commands that are called through their shims.

use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use codebox_agent::command::{SHIM_SOCKET, ShimEvent, ShimReply, ShimRequest, unpack};
use codebox_agent::{Event, Request, Status};
use codebox_core::{NotRun, ShimCall, Truncation};
use rustix::fs::{Mode, fstat};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, umask};
use serde_bytes::ByteBuf;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use super::BoxState;
use super::children::{Origin, signal_group};
use super::shaped::{KEPT_CALLS, MAX_SPILLED, Shaped, remove_earlier};
use crate::program;

/// Timeout for the request of a shim.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of callers whose request has not arrived.
const MAX_PENDING: usize = 256;

/// Status of a call in the log of a caller that runs the command itself.
const UNKNOWN_STATUS: i32 = -1;

/// Number of descriptors of a request: three streams and the working directory.
const DESCRIPTORS: usize = 4;

/// Most bytes of a command line in the record of a call.
const MAX_RECORDED: usize = 4096;

/// Size in bytes that most requests do not exceed.
const USUAL_REQUEST_SIZE: usize = 64 << 10;

/// Exit status of a command that took too long, as of `timeout`.
const TIMED_OUT: i32 = 124;

/// Starts listening for shims.
pub(super) fn listen() -> io::Result<std::os::unix::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind_addr(&SocketAddr::from_abstract_name(SHIM_SOCKET)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves calls of shims.
pub(super) async fn serve(listener: std::os::unix::net::UnixListener, state: Rc<BoxState>) {
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    let pending = Arc::new(Semaphore::new(MAX_PENDING));
    loop {
        // Without a place, further callers wait in the queue of the socket.
        let Ok(permit) = Arc::clone(&pending).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    let _ = serve_call(stream, &state, permit).await;
                });
            }
            // No descriptor is free.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A call of a shim.
struct Call {
    request: ShimRequest,
    /// Standard input, standard output, standard error and the working directory.
    descriptors: [OwnedFd; DESCRIPTORS],
    caller: Option<Pid>,
}

async fn serve_call(mut stream: UnixStream, state: &BoxState, permit: OwnedSemaphorePermit) -> io::Result<()> {
    let call = timeout(REQUEST_TIMEOUT, receive(&mut stream)).await??;
    drop(permit);
    let began = Instant::now();
    let argv = recorded(&call.request.argv);
    let (reader, mut writer) = stream.into_split();
    let (to_shim, mut messages) = unbounded_channel::<ShimEvent>();
    // A shim that does not read keeps its own call waiting.
    let writing = tokio::task::spawn_local(async move {
        while let Some(message) = messages.recv().await {
            if writer.write_all(&message.encode()).await.is_err() {
                break;
            }
        }
    });
    let (reply, outcome) = match run(call, reader, &to_shim, state).await {
        Ok(ended) => (ended.reply, ended.recorded),
        Err(not_run) => {
            let (status, message) = program::status_of(&not_run);
            let recorded = Recorded { is_denied: matches!(not_run, NotRun::Denied(_)), spilled: None };
            (Some(ShimReply { status: Status::Exited(status), message: Some(message) }), recorded)
        }
    };
    let status = match reply.as_ref().map(|reply| reply.status) {
        Some(Status::Exited(code)) => code,
        Some(Status::Signalled(signal)) => 128 + signal,
        Some(Status::NotStarted(_)) => 126,
        None => UNKNOWN_STATUS,
    };
    if let Some(reply) = reply {
        let _ = to_shim.send(ShimEvent::Ended(reply));
    }
    drop(to_shim);
    let Recorded { is_denied, spilled } = outcome;
    let call = ShimCall { argv, status, wall: began.elapsed(), is_denied, spilled };
    state.send(Event::ShimCall(Box::new(call)));
    let _ = writing.await;
    Ok(())
}

/// Receives a request and its descriptors.
async fn receive(stream: &mut UnixStream) -> io::Result<Call> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed request");
    let caller = stream.peer_cred()?.pid().and_then(Pid::from_raw);
    let (mut length, mut descriptors) = ([0; 4], Vec::new());
    let count = stream.async_io(Interest::READABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut length)];
        let received = recvmsg(&*stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        Ok(received.bytes)
    });
    let count = count.await?;
    stream.read_exact(&mut length[count..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > Request::MAX_PAYLOAD_SIZE {
        return Err(malformed());
    }
    // Memory is used in proportion to the bytes that have arrived.
    let mut request = Vec::with_capacity(length.min(USUAL_REQUEST_SIZE));
    (&mut *stream).take(length as u64).read_to_end(&mut request).await?;
    let request = unpack(&request).filter(|_| request.len() == length).ok_or_else(malformed)?;
    let descriptors = descriptors.try_into().map_err(|_| malformed())?;
    Ok(Call { request, descriptors, caller })
}

struct Ended {
    /// `None` if the caller runs the command itself.
    reply: Option<ShimReply>,
    recorded: Recorded,
}

struct Recorded {
    is_denied: bool,
    spilled: Option<String>,
}

async fn run(
    call: Call,
    mut caller_stream: OwnedReadHalf,
    to_shim: &UnboundedSender<ShimEvent>,
    state: &BoxState,
) -> Result<Ended, NotRun> {
    let Call { request: ShimRequest { argv, env, umask: mask, has_descriptors }, descriptors, caller } = call;
    let malformed = || NotRun::NotExecutable("the request is malformed".to_owned());
    let argv = argv.iter().map(|word| program::word(word)).collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
    let (argv0, args) = argv.split_first().ok_or_else(malformed)?;
    let name = program::check(&state.settings.rules, argv0)?;
    let path = env.iter().find(|(name, _)| name.as_slice() == b"PATH").map(|(_, path)| path.as_slice());
    let path = path.and_then(program::word).unwrap_or_else(|| program::DEFAULT_PATH.into());
    let program_file = program::find(OsStr::new(&name), &path)?;
    if has_descriptors {
        // Only the caller can pass them on under their numbers, as for `<(command)` of a shell.
        let _ = to_shim.send(ShimEvent::Become(program_file.into_os_string().into_vec()));
        return Ok(Ended { reply: None, recorded: Recorded { is_denied: false, spilled: None } });
    }
    let failed = |error: io::Error| program::not_started(argv0, &error);
    let shaped_streams = shaped_streams(&descriptors, caller, state);
    let [stdin, stdout, stderr, cwd] = descriptors;
    let mut command = Command::new(program_file);
    command.arg0(argv0).args(args).env_clear().process_group(0);
    for (name, value) in &env {
        let (name, value) = program::word(name).zip(program::word(value)).ok_or_else(malformed)?;
        command.env(name, value);
    }
    let mut shaped = Vec::new();
    let call_number = state.next_spill.get();
    if shaped_streams.contains(&true) {
        state.next_spill.set(call_number + 1);
        if let Some(earlier) = call_number.checked_sub(KEPT_CALLS) {
            for kind in ["stdout", "stderr"] {
                remove_earlier(&format!("{earlier}.{kind}"));
            }
        }
    }
    let mut output = |descriptor: OwnedFd, is_shaped: bool, number: u8, kind: &str| -> io::Result<Stdio> {
        if !is_shaped {
            return Ok(descriptor.into());
        }
        let (reader, writer) = io::pipe()?;
        drop(descriptor);
        let (to_shim, file) = (to_shim.clone(), format!("{call_number}.{kind}"));
        shaped.push(Shaped::new(reader.into(), number, to_shim, state.settings.shape, &file)?);
        Ok(writer.into())
    };
    let stdout = output(stdout, shaped_streams[0], 1, "stdout").map_err(failed)?;
    let stderr = output(stderr, shaped_streams[1], 2, "stderr").map_err(failed)?;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    // This thread alone creates processes and files.
    let own_mask = umask(Mode::from_raw_mode(mask));
    let started = state.children.spawn(&mut command, &cwd);
    umask(own_mask);
    let mut process = started.map_err(failed)?;
    drop((command, cwd));
    let limit = state.settings.rules.wall.get(&name).copied();
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let (mut is_overdue, mut is_flood, mut has_caller) = (false, false, true);
    let status = loop {
        let next = {
            let mut signal = [0];
            let mut shaped = shaped.iter_mut();
            let (first, second) = (shaped.next(), shaped.next());
            tokio::select! {
                biased;
                () = at(deadline), if !is_overdue => Next::Overdue,
                count = caller_stream.read(&mut signal), if has_caller => Next::Caller(count.unwrap_or(0), signal[0]),
                bytes = read(&first) => Next::Output(0, bytes),
                bytes = read(&second) => Next::Output(1, bytes),
                status = &mut process.exit => break status.unwrap_or(Status::NotStarted(0)),
            }
        };
        match next {
            Next::Overdue => {
                is_overdue = true;
                signal_group(process.pid, Signal::KILL);
            }
            // The shim was killed.
            Next::Caller(0, _) => {
                has_caller = false;
                signal_group(process.pid, Signal::KILL);
            }
            Next::Caller(_, number) => {
                if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                    signal_group(process.pid, signal);
                }
            }
            Next::Output(index, bytes) => {
                shaped[index].pass_on(bytes);
                if shaped[index].is_over() && !is_flood {
                    is_flood = true;
                    signal_group(process.pid, Signal::KILL);
                }
            }
        }
    };
    let mut spilled = None;
    for shaped in shaped {
        spilled = spilled.or(shaped.finish());
    }
    let recorded = Recorded { is_denied: false, spilled };
    let reply = match limit {
        Some(limit) if is_overdue => {
            let message = format!("codebox: {name}: stopped after its time limit of {} ms", limit.as_millis());
            ShimReply { status: Status::Exited(TIMED_OUT), message: Some(message) }
        }
        _ if is_flood => {
            let message = format!("codebox: {name}: stopped after {} MiB of output", MAX_SPILLED >> 20);
            ShimReply { status, message: Some(message) }
        }
        _ => ShimReply { status, message: None },
    };
    Ok(Ended { reply: Some(reply), recorded })
}

/// Event of a running call.
enum Next {
    Overdue,
    /// Number of bytes from the shim, and the first one: a signal.
    Caller(usize, u8),
    Output(usize, Vec<u8>),
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn read(shaped: &Option<&mut Shaped>) -> Vec<u8> {
    match shaped {
        Some(shaped) => shaped.read().await,
        None => std::future::pending().await,
    }
}

/// Returns for standard output and standard error whether the text is cut.
///
/// The caller of the box captures an output if it is that of the first process of a program that the engine has started. The output
/// of a program that this agent has started is cut by the host. A terminal is read by a person.
fn shaped_streams(descriptors: &[OwnedFd; DESCRIPTORS], caller: Option<Pid>, state: &BoxState) -> [bool; 2] {
    let origin = || caller.map_or(Origin::Detached, |caller| state.children.origin(caller));
    let is_shaped = |index: usize, top: Option<Pid>| {
        let descriptor = &descriptors[index];
        !rustix::termios::isatty(descriptor) && top.is_none_or(|top| is_output_of(descriptor, top, index))
    };
    match state.settings.truncation {
        Truncation::Off => [false; 2],
        Truncation::Every => [1, 2].map(|index| is_shaped(index, None)),
        Truncation::Capture => match origin() {
            Origin::Engine(top) => [1, 2].map(|index| is_shaped(index, Some(top))),
            Origin::Command | Origin::Detached => [false; 2],
        },
    }
}

/// Returns true if a descriptor is the same file as a stream of a process.
fn is_output_of(descriptor: &OwnedFd, pid: Pid, stream: usize) -> bool {
    let theirs = rustix::fs::stat(format!("/proc/{}/fd/{stream}", pid.as_raw_nonzero()));
    let ours = fstat(descriptor);
    theirs
        .and_then(|theirs| Ok((ours?, theirs)))
        .is_ok_and(|(ours, theirs)| (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
}

/// Returns the start of a command line, with `...` in place of the words that are left out. No word is cut, because the start of a secret would
/// not be recognized as one.
fn recorded(argv: &[ByteBuf]) -> Vec<ByteBuf> {
    let mut left = MAX_RECORDED;
    let mut words = Vec::new();
    for word in argv {
        match left.checked_sub(word.len().max(1)) {
            Some(rest) => {
                words.push(word.clone());
                left = rest;
            }
            None => {
                words.push(ByteBuf::from("..."));
                break;
            }
        }
    }
    words
}
