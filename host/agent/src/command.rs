//! Commands of a box: many at once over one connection, each with a number that the host assigns.

use codebox_core::{BoxCommand, NotRun, WindowSize};
use serde::{Deserialize, Serialize};

use crate::event::{Status, Stop};
use crate::frame::{Frame, encode};
use crate::port_forward::PortForward;

/// Bytes of output that a command may send before the host accepts more.
pub const OUTPUT_WINDOW: u32 = 256 << 10;

/// Bytes of a command's input that the host may send before the agent accepts more.
pub const INPUT_WINDOW: u32 = 64 << 10;

/// Most bytes of output in one event.
pub const MAX_OUTPUT_SIZE: usize = 64 << 10;

/// Maximum number of commands at one time.
pub const MAX_COMMANDS: usize = 1024;

/// Directory of the shims: links to the agent, in the `PATH` of a box before all others.
pub const SHIM_DIR: &str = "/.codebox/bin";

/// Directory of the socket to the host.
pub const SOCKET_DIR: &str = "/.codebox/run";

/// Name of the abstract socket of the shims.
pub const SHIM_SOCKET: &[u8] = b"codebox-shims";

/// Directory for the output of commands whose caller gets a part of it.
pub const SPILL_DIR: &str = "/tmp/.codebox-output";

/// Settings with which the agent becomes that of a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBox {
    /// Variables of every command.
    pub env: Vec<(String, String)>,
    /// Names of variables that have the image's value, if the image sets them and `env` does not.
    pub from_image: Vec<String>,
    /// Working directory of commands that name none.
    pub cwd: String,
    /// Shims, rules and limits on output.
    pub settings: codebox_core::BoxSettings,
    /// Port forwards of the box.
    pub port_forwards: Vec<PortForward>,
    /// Socket to the host.
    pub socket: Option<HostSocket>,
}

/// Socket on which the host waits for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSocket {
    /// Path in the container.
    pub path: String,
    /// Bytes by which the host recognizes the agent, which it sends first.
    pub token: Vec<u8>,
}

/// Answer to [`OpenBox`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxOpened {
    /// True if requests and events of commands use the socket.
    pub has_socket: bool,
    /// Commands of the settings that exist in the image.
    pub shims: Vec<String>,
}

/// Request for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandRequest {
    /// Start of the command.
    Start(Box<BoxCommand>),
    /// Bytes of its standard input, at most as many as the agent accepts.
    Input(Vec<u8>),
    /// End of its standard input.
    InputEnd,
    /// Number of bytes of output that the host accepts in addition.
    OutputCredit(u32),
    /// Signal for its process group.
    Signal(u8),
    /// New size of its terminal.
    Resize(WindowSize),
    /// The host has no more interest in the command, whose process group is killed.
    Abandon,
}

/// Event of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// Bytes of its standard output.
    Stdout(Vec<u8>),
    /// Bytes of its standard error.
    Stderr(Vec<u8>),
    /// Number of bytes of input that the agent accepts in addition.
    InputCredit(u32),
    /// End of the command, its last event.
    Ended(CommandExit),
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// Status of its process.
    pub status: Status,
    /// Limit for which the agent has killed it.
    pub stop: Option<Stop>,
    /// Reason that it did not run.
    pub not_run: Option<NotRun>,
    /// Wall-clock time in microseconds.
    pub wall_us: u64,
    /// Number of processes of the box that were killed for lack of memory while it ran.
    pub oom_kills: Option<u64>,
}

const START: u8 = 0;
const INPUT: u8 = 1;
const INPUT_END: u8 = 2;
const OUTPUT_CREDIT: u8 = 3;
const SIGNAL: u8 = 4;
const RESIZE: u8 = 5;
const ABANDON: u8 = 6;

const STDOUT: u8 = 0;
const STDERR: u8 = 1;
const INPUT_CREDIT: u8 = 2;
const ENDED: u8 = 3;

impl CommandRequest {
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        match self {
            Self::Start(command) => payload(number, START, &pack(command)),
            Self::Input(bytes) => payload(number, INPUT, bytes),
            Self::InputEnd => payload(number, INPUT_END, &[]),
            Self::OutputCredit(count) => payload(number, OUTPUT_CREDIT, &count.to_be_bytes()),
            Self::Signal(signal) => payload(number, SIGNAL, &[*signal]),
            Self::Resize(size) => payload(number, RESIZE, &pack(size)),
            Self::Abandon => payload(number, ABANDON, &[]),
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<(u32, Self)> {
        let (number, kind, rest) = parts(payload)?;
        let request = match (kind, rest) {
            (START, bytes) => Self::Start(unpack(bytes)?),
            (INPUT, bytes) => Self::Input(bytes.to_vec()),
            (INPUT_END, []) => Self::InputEnd,
            (OUTPUT_CREDIT, count) => Self::OutputCredit(u32::from_be_bytes(count.try_into().ok()?)),
            (SIGNAL, [signal]) => Self::Signal(*signal),
            (RESIZE, bytes) => Self::Resize(unpack(bytes)?),
            (ABANDON, []) => Self::Abandon,
            _ => return None,
        };
        Some((number, request))
    }
}

impl CommandEvent {
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        match self {
            Self::Stdout(bytes) => payload(number, STDOUT, bytes),
            Self::Stderr(bytes) => payload(number, STDERR, bytes),
            Self::InputCredit(count) => payload(number, INPUT_CREDIT, &count.to_be_bytes()),
            Self::Ended(exit) => payload(number, ENDED, &pack(exit)),
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<(u32, Self)> {
        let (number, kind, rest) = parts(payload)?;
        let event = match (kind, rest) {
            (STDOUT, bytes) => Self::Stdout(bytes.to_vec()),
            (STDERR, bytes) => Self::Stderr(bytes.to_vec()),
            (INPUT_CREDIT, count) => Self::InputCredit(u32::from_be_bytes(count.try_into().ok()?)),
            (ENDED, bytes) => Self::Ended(unpack(bytes)?),
            _ => return None,
        };
        Some((number, event))
    }
}

/// Call of a command through its shim: the request of the shim to the agent, which carries the caller's three streams and working
/// directory as descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimRequest {
    /// Command line of the caller.
    pub argv: Vec<serde_bytes::ByteBuf>,
    /// Environment of the caller.
    pub env: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
    /// File mode creation mask of the caller.
    pub umask: u32,
    /// True if the caller has passed on other descriptors than its three streams, which the command may use by their numbers.
    pub has_descriptors: bool,
}

/// Message of the agent to a shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShimEvent {
    /// Bytes for the caller's standard output or standard error (1 or 2), of a command whose output is cut.
    Output(u8, Vec<u8>),
    /// The command has ended. It is the last message.
    Ended(ShimReply),
    /// The shim becomes this program itself.
    Become(Vec<u8>),
}

/// End of a command with a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimReply {
    /// Status of the command.
    pub status: Status,
    /// Text for the caller's standard error.
    pub message: Option<String>,
}

const SHIM_STDOUT: u8 = 1;
const SHIM_STDERR: u8 = 2;
const SHIM_ENDED: u8 = 3;
const SHIM_BECOMES: u8 = 4;

impl ShimEvent {
    /// Maximum length of a payload in bytes.
    pub const MAX_PAYLOAD_SIZE: usize = 1 << 20;

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Output(stream, bytes) => encode(*stream, bytes),
            Self::Ended(reply) => encode(SHIM_ENDED, &pack(reply)),
            Self::Become(program) => encode(SHIM_BECOMES, program),
        }
    }

    /// Decodes a frame; `None` if it is malformed.
    #[must_use]
    pub fn decode(frame: Frame) -> Option<Self> {
        let Frame { kind, payload } = frame;
        Some(match kind {
            SHIM_STDOUT | SHIM_STDERR => Self::Output(kind, payload),
            SHIM_ENDED => Self::Ended(unpack(&payload)?),
            SHIM_BECOMES => Self::Become(payload),
            _ => return None,
        })
    }
}

/// Encodes a value of the protocol.
#[must_use]
pub fn pack(value: &impl Serialize) -> Vec<u8> {
    // Serializing strings, bytes and numbers cannot fail.
    rmp_serde::to_vec(value).unwrap_or_default()
}

/// Decodes a value of the protocol; `None` if it is malformed.
#[must_use]
pub fn unpack<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    rmp_serde::from_slice(bytes).ok()
}

fn payload(number: u32, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(5 + rest.len());
    payload.extend(number.to_be_bytes());
    payload.push(kind);
    payload.extend(rest);
    payload
}

fn parts(payload: &[u8]) -> Option<(u32, u8, &[u8])> {
    let (number, rest) = payload.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    Some((u32::from_be_bytes(*number), *kind, rest))
}
