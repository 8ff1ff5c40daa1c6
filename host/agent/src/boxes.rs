//! The agent of a box: runs many commands at once, and serves the shims.
//!
//! One thread runs the commands. Two others read requests, and one writes events, so that a host that reads slowly does not
//! keep the commands from being killed. The number of bytes that wait to be written is bounded by the windows of the commands.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use codebox_agent::command::{
    BoxOpened, CommandEvent, CommandExit, CommandRequest, HostSocket, MAX_COMMANDS, OpenBox, SHIM_DIR,
};
use codebox_agent::frame::Decoder;
use codebox_agent::{Event, Request, Status};
use codebox_core::BoxSettings;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::oom_score::OomScore;
use crate::port_forwards::PortForwarder;
use crate::program;
use crate::writer::EventWriter;

mod children;
mod command;
mod shaped;
mod shims;
mod stream;

use children::Children;

/// The parts that all commands of a box share.
pub(crate) struct BoxState {
    children: Children,
    settings: BoxSettings,
    /// Variables of commands that the host starts.
    env: Vec<(String, String)>,
    cwd: String,
    events: Sender<Event>,
    /// Number of the next call whose output may be cut.
    next_spill: Cell<u64>,
}

impl BoxState {
    fn send(&self, event: Event) {
        // Without its writer this process is about to end.
        let _ = self.events.send(event);
    }
}

/// Runs the commands of a box until the host's stream ends. The exit of this process ends everything in the container.
///
/// `stdin` and `decoder` are the host's requests, and `stdio` writes to the host.
pub(crate) fn serve(
    open: OpenBox,
    stdin: File,
    decoder: Decoder,
    stdio: &EventWriter,
    oom_score: OomScore,
) -> io::Result<()> {
    let OpenBox { env, from_image, cwd, mut settings, port_forwards, socket } = open;
    let env = environment(env, &from_image);
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    settings.shims.retain(|name| program::find(name.as_ref(), path.as_ref()).is_ok());
    let listener = shims::listen()?;
    let (request_sender, requests) = unbounded_channel();
    let connection = socket.and_then(|socket| connect(&socket).ok());
    let has_socket = connection.is_some();
    let writer = match connection {
        Some(connection) => {
            let reader = File::from(OwnedFd::from(connection.try_clone()?));
            read_requests(reader, Decoder::new(Request::MAX_PAYLOAD_SIZE), request_sender.clone());
            EventWriter::from_file(File::from(OwnedFd::from(connection)))
        }
        None => stdio.clone(),
    };
    let shims = settings.shims.iter().cloned().collect();
    stdio.send(&Event::BoxOpened(BoxOpened { has_socket, shims }));
    // The end of this stream ends the box, also if requests use the socket.
    read_requests(stdin, decoder, request_sender);
    let mut forwarder = PortForwarder::default();
    forwarder.open(&port_forwards, &writer)?;
    let (events, outbox) = channel();
    thread::spawn(move || outbox.iter().for_each(|event| writer.send(&event)));
    let children = Children::new(oom_score);
    let state = Rc::new(BoxState { children, settings, env, cwd, events, next_spill: Cell::new(0) });
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    tasks.spawn_local(shims::serve(listener, Rc::clone(&state)));
    tasks.block_on(&executor, run(state, requests, forwarder))
}

/// Handles requests as long as there are any.
async fn run(
    state: Rc<BoxState>,
    mut requests: UnboundedReceiver<Request>,
    forwarder: PortForwarder,
) -> io::Result<()> {
    let reaping = Rc::clone(&state);
    let mut child_signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())?;
    tokio::task::spawn_local(async move {
        while child_signal.recv().await.is_some() {
            reaping.children.reap();
        }
    });
    let commands: Rc<RefCell<HashMap<u32, UnboundedSender<CommandRequest>>>> = Rc::default();
    while let Some(request) = requests.recv().await {
        match request {
            Request::Command(number, CommandRequest::Start(command)) => {
                let is_free = commands.borrow().len() < MAX_COMMANDS && !commands.borrow().contains_key(&number);
                if !is_free {
                    state.send(Event::Command(number, CommandEvent::Ended(refused(rustix::io::Errno::AGAIN))));
                    continue;
                }
                let (sender, receiver) = unbounded_channel();
                commands.borrow_mut().insert(number, sender);
                let (state, commands) = (Rc::clone(&state), Rc::clone(&commands));
                tokio::task::spawn_local(async move {
                    let exit = command::run(number, *command, receiver, &state).await;
                    commands.borrow_mut().remove(&number);
                    state.send(Event::Command(number, CommandEvent::Ended(exit)));
                });
            }
            // A command that has ended receives nothing.
            Request::Command(number, request) => {
                if let Some(command) = commands.borrow().get(&number) {
                    let _ = command.send(request);
                }
            }
            Request::Connection(number, event) => forwarder.stream_event(number, event),
            _ => return Err(io::Error::other("malformed request")),
        }
    }
    Ok(())
}

/// Returns the end of a command that was not started.
fn refused(error: rustix::io::Errno) -> CommandExit {
    let status = Status::NotStarted(error.raw_os_error());
    CommandExit { status, stop: None, not_run: None, wall_us: 0, oom_kills: None }
}

/// Connects to the host, and proves to it that this process is the agent.
fn connect(socket: &HostSocket) -> io::Result<UnixStream> {
    let mut connection = UnixStream::connect(&socket.path)?;
    connection.write_all(&socket.token)?;
    Ok(connection)
}

/// Reads requests in a thread. The end of the stream ends this process.
fn read_requests(mut from: File, mut decoder: Decoder, requests: UnboundedSender<Request>) {
    thread::spawn(move || {
        let failure = loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => match Request::decode(frame) {
                    Some(request) => {
                        let _ = requests.send(request);
                        continue;
                    }
                    None => break "malformed request".to_owned(),
                },
                Ok(None) => {}
                Err(error) => break error.to_string(),
            }
            let mut buffer = vec![0; 64 << 10];
            match from.read(&mut buffer) {
                Ok(0) => std::process::exit(0),
                Ok(count) => decoder.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.to_string(),
            }
        };
        eprintln!("codebox-agent: {failure}");
        std::process::exit(125);
    });
}

/// Returns the variables of commands that the host starts. The shims are found before other programs.
fn environment(own: Vec<(String, String)>, from_image: &[String]) -> Vec<(String, String)> {
    let inherited = from_image.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let mut env: Vec<(String, String)> = inherited.filter(|(name, _)| own.iter().all(|(own, _)| own != name)).collect();
    env.extend(own);
    match env.iter_mut().find(|(name, _)| name == "PATH") {
        Some((_, path)) if path.split(':').any(|dir| dir == SHIM_DIR) => {}
        Some((_, path)) => *path = format!("{SHIM_DIR}:{path}"),
        None => env.push(("PATH".to_owned(), format!("{SHIM_DIR}:{}", program::DEFAULT_PATH))),
    }
    env
}
