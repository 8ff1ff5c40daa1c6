//! A shim: passes a call of a command to the agent of the box, and ends as the command does.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use codebox_agent::Status;
use codebox_agent::command::{SHIM_SOCKET, ShimEvent, ShimReply, ShimRequest, pack};
use codebox_agent::frame::Decoder;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::umask;
use serde_bytes::ByteBuf;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// Signals that are passed on, unless this process ignores them.
const SIGNALS: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH];

/// Exit status if the agent cannot be reached, or does not answer.
const NO_AGENT: u8 = 125;

/// Returns true if this program was started under the name of a command and not under its own.
pub(crate) fn is_shim(argv0: &OsStr) -> bool {
    let own = |name: &OsStr| {
        name == "agent"
            || name == "exe"
            || name.as_bytes().starts_with(b"codebox-agent")
            || name.as_bytes().starts_with(b"agent-")
    };
    Path::new(argv0).file_name().is_some_and(|name| !own(name))
}

/// Runs the command of this process's command line.
pub(crate) fn run() -> ExitCode {
    let name = env::args_os().next().unwrap_or_default();
    match call() {
        Ok(reply) => end(&reply),
        Err(error) => {
            eprintln!("codebox: {}: the agent of this box does not answer: {error}", name.display());
            ExitCode::from(NO_AGENT)
        }
    }
}

fn call() -> io::Result<ShimReply> {
    let bytes = |word: std::ffi::OsString| ByteBuf::from(word.into_vec());
    let has_descriptors = inherits_descriptors();
    let mask = umask(Mode::empty());
    umask(mask);
    let request = ShimRequest {
        argv: env::args_os().map(bytes).collect(),
        env: env::vars_os().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        umask: mask.as_raw_mode(),
        has_descriptors,
    };
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(SHIM_SOCKET)?)?;
    send(&mut stream, &pack(&request))?;
    // A signal that arrives before ends this process, and thereby the command.
    let (signal_reader, signal_writer) = UnixStream::pair()?;
    let ignored = ignored_signals();
    // The command does not receive a signal that its caller has this process ignore, as after `nohup`.
    let passed = SIGNALS.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = SignalDelivery::with_pipe(signal_reader, signal_writer, SignalOnly, passed)?;
    let mut decoder = Decoder::new(ShimEvent::MAX_PAYLOAD_SIZE);
    let mut buffer = vec![0; 8 << 10];
    // True if this process writes the output, and so notices that its reader is gone.
    let mut writes = false;
    loop {
        let stdout = rustix::stdio::stdout();
        let mut waiting = [
            PollFd::new(&stream, PollFlags::IN),
            PollFd::new(signals.get_read(), PollFlags::IN),
            PollFd::new(&stdout, PollFlags::empty()),
        ];
        let count = if writes { 3 } else { 2 };
        match poll(&mut waiting[..count], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (has_event, has_no_reader) =
            (!waiting[0].revents().is_empty(), waiting[2].revents().contains(PollFlags::ERR));
        for signal in signals.pending() {
            let _ = stream.write_all(&[u8::try_from(signal).unwrap_or(0)]);
        }
        if has_no_reader {
            end_by(SIGPIPE);
        }
        if !has_event {
            continue;
        }
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"));
        }
        decoder.push(&buffer[..count]);
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            match ShimEvent::decode(frame) {
                Some(ShimEvent::Output(number, bytes)) => {
                    writes = true;
                    write_output(number, &bytes);
                }
                Some(ShimEvent::Ended(reply)) => return Ok(reply),
                Some(ShimEvent::Become(program)) => {
                    let mut command = Command::new(OsString::from_vec(program));
                    let mut words = env::args_os();
                    command.arg0(words.next().unwrap_or_default()).args(words);
                    return Err(command.exec());
                }
                None => return Err(io::Error::new(io::ErrorKind::InvalidData, "it sent a malformed message")),
            }
        }
    }
}

/// Returns the signals that this process ignores: a bit for each, that of signal 1 is the lowest.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Writes output of the command. A reader that is gone ends this process, as it ends a command.
fn write_output(number: u8, bytes: &[u8]) {
    let written = match number {
        1 => write_all(rustix::stdio::stdout(), bytes),
        _ => write_all(rustix::stdio::stderr(), bytes),
    };
    if written == Err(Errno::PIPE) {
        end_by(SIGPIPE);
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // The stream is shared with a program that has made it non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends this process by a signal.
fn end_by(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// Returns true if this process has inherited other descriptors than its three streams. Call it before any is opened.
fn inherits_descriptors() -> bool {
    const CLOSE_ON_EXEC: u64 = 0o2_000_000;
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_inherited = |number: &u32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        flags.is_some_and(|flags| flags & CLOSE_ON_EXEC == 0)
    };
    numbers.filter(|number| *number > 2).collect::<Vec<_>>().iter().any(is_inherited)
}

/// Sends a request, with the streams and the working directory of this process.
fn send(stream: &mut UnixStream, request: &[u8]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let cwd = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(".")?;
    // A stream that is closed is passed as an empty one.
    let open = |stream: BorrowedFd<'static>| rustix::io::fcntl_getfd(stream).is_ok().then_some(stream);
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()].map(open);
    let [stdin, stdout, stderr] = streams.map(|stream| stream.unwrap_or(null.as_fd()));
    let descriptors = [stdin, stdout, stderr, cwd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let length = u32::try_from(request.len()).map_err(io::Error::other)?.to_be_bytes();
    let sent = sendmsg(&*stream, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&length[sent..])?;
    stream.write_all(request)
}

/// Ends this process as the command has ended.
fn end(reply: &ShimReply) -> ExitCode {
    if let Some(message) = &reply.message {
        eprintln!("{message}");
    }
    match reply.status {
        Status::Exited(code) => std::process::exit(code),
        Status::Signalled(signal) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            // The signal does not end a process by default.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Status::NotStarted(_) => ExitCode::from(126),
    }
}
