use codebox_core::WindowSize;
use serde::{Deserialize, Serialize};

use crate::command::{CommandRequest, OpenBox, pack, unpack};
use crate::frame::{Frame, encode, prepend_number, split_number};
use crate::port_forward::{PortForward, StreamEvent};

/// A request from the host to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Start of a job.
    Run(Run),
    /// Next bytes of the job's standard input, at most as many as the agent has requested.
    Input(Vec<u8>),
    /// End of the job's standard input.
    InputEnd,
    /// Signal for every process of the job.
    Signal(u8),
    /// New size of the job's terminal, of which the agent ignores that of a job without one.
    Resize(WindowSize),
    /// Answer to the query with this number. The agent ignores it if the query is no longer open.
    Answer(u32, Vec<u8>),
    /// Event of the connection with this number. The agent ignores it if the connection no longer exists.
    Connection(u32, StreamEvent),
    /// Start of a box, in place of a job.
    OpenBox(Box<OpenBox>),
    /// Request for the command with this number.
    Command(u32, CommandRequest),
}

/// A job as the agent starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The command line. The first word is looked up in the job's `PATH` if it has no slash.
    pub argv: Vec<String>,
    /// The variables of the environment. No others are set except those in `from_image`.
    pub env: Vec<(String, String)>,
    /// Names of variables that have the image's value, if the image sets them and `env` does not.
    pub from_image: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// Permission of the job's programs to query the host.
    pub query_permission: QueryPermission,
    /// The port forwards of the job.
    pub port_forwards: Vec<PortForward>,
    /// Size of the terminal that the streams are; `None` for pipes.
    #[serde(default)]
    pub terminal: Option<WindowSize>,
    /// True if that terminal edits and shows the lines that are typed, because the one of the caller passes each key on.
    #[serde(default)]
    pub terminal_edits: bool,
    /// Limit on wall-clock time, in milliseconds.
    pub wall_ms: Option<u64>,
    /// Limit on the processor time of all processes together, in milliseconds.
    pub cpu_ms: Option<u64>,
}

/// Permission of a job's programs to query the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum QueryPermission {
    /// No queries; the agent does not listen for any.
    #[default]
    Denied,
    /// Queries through the socket that [`QUERY_SOCKET`](crate::QUERY_SOCKET) names.
    Allowed,
}

const RUN: u8 = 1;
const INPUT: u8 = 2;
const INPUT_END: u8 = 3;
const SIGNAL: u8 = 4;
const ANSWER: u8 = 5;
const OPEN_BOX: u8 = 7;
const COMMAND: u8 = 8;
const CONNECTION: u8 = 6;
const RESIZE: u8 = 9;

impl Request {
    /// Length limit for the payload of a request in bytes, more than the longest command line and environment that a
    /// kernel accepts.
    pub const MAX_PAYLOAD_SIZE: usize = 16 << 20;

    /// Encodes the request as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            // Serializing strings and numbers to JSON cannot fail.
            Self::Run(run) => encode(RUN, &serde_json::to_vec(run).unwrap_or_default()),
            Self::Input(bytes) => encode(INPUT, bytes),
            Self::InputEnd => encode(INPUT_END, &[]),
            Self::Signal(number) => encode(SIGNAL, &[*number]),
            Self::Resize(WindowSize { rows, columns }) => {
                let [rows, columns] = [rows.to_be_bytes(), columns.to_be_bytes()];
                encode(RESIZE, &[rows, columns].concat())
            }
            Self::Answer(number, bytes) => encode(ANSWER, &prepend_number(*number, bytes)),
            Self::Connection(number, stream_event) => encode(CONNECTION, &stream_event.encode(*number)),
            Self::OpenBox(open) => encode(OPEN_BOX, &pack(open)),
            Self::Command(number, request) => encode(COMMAND, &request.encode(*number)),
        }
    }

    /// Decodes a frame. Returns `None` if the frame is not a valid request.
    #[must_use]
    pub fn decode(frame: Frame) -> Option<Self> {
        let Frame { kind, payload } = frame;
        Some(match kind {
            RUN => Self::Run(serde_json::from_slice(&payload).ok()?),
            INPUT => Self::Input(payload),
            INPUT_END => Self::InputEnd,
            SIGNAL => Self::Signal(*payload.first()?),
            RESIZE => {
                let [a, b, c, d] = payload[..].try_into().ok()?;
                let (rows, columns) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Self::Resize(WindowSize { rows, columns })
            }
            ANSWER => {
                let (number, bytes) = split_number(payload)?;
                Self::Answer(number, bytes)
            }
            CONNECTION => {
                let (number, stream_event) = StreamEvent::decode(&payload)?;
                Self::Connection(number, stream_event)
            }
            OPEN_BOX => Self::OpenBox(unpack(&payload)?),
            COMMAND => {
                let (number, request) = CommandRequest::decode(&payload)?;
                Self::Command(number, request)
            }
            _ => return None,
        })
    }
}
