use codebox_core::ShimCall;
use serde::{Deserialize, Serialize};

use crate::command::{BoxOpened, CommandEvent, pack, unpack};
use crate::frame::{Frame, encode, prepend_number, split_number};
use crate::port_forward::StreamEvent;

/// An event that the agent reports to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Readiness of the agent for a job.
    Ready(u32),
    /// Start of the job's program.
    Started,
    /// Next bytes of the job's standard output.
    Stdout(Vec<u8>),
    /// Next bytes of the job's standard error.
    Stderr(Vec<u8>),
    /// Number of further bytes of input that the host may send.
    InputCredit(u32),
    /// Query of the job to the host, with a number that is unique among the queries of this agent. The job waits for
    /// the [`Answer`](crate::Request::Answer) with that number. At most [`MAX_OPEN_QUERIES`](crate::MAX_OPEN_QUERIES) queries wait at
    /// one time.
    Query(u32, Vec<u8>),
    /// Number of a new connection, unique among the open ones, and index of the port forward to which a program of the
    /// job has connected.
    Accepted(u32, u16),
    /// Event of the connection with this number.
    Connection(u32, StreamEvent),
    /// Start of a box.
    BoxOpened(BoxOpened),
    /// Event of the command with this number.
    Command(u32, CommandEvent),
    /// End of a command of a box that has a shim or was started by the host.
    ShimCall(Box<ShimCall>),
    /// End of the job: all processes have ended and all output has been sent.
    JobExit(JobExit),
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobExit {
    /// Status of the job's first process.
    pub status: Status,
    /// Reason for which the agent killed the job, if it did.
    pub stop: Option<Stop>,
    /// Time from start to end, in microseconds.
    pub wall_us: u64,
    /// Counters of the kernel.
    pub evidence: CgroupStats,
}

/// Status of a job's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Exit with this code.
    Exited(i32),
    /// Termination by this signal.
    Signalled(i32),
    /// Failure to start, with the system's error number.
    NotStarted(i32),
}

/// Reason for which the agent killed a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The limit on wall-clock time.
    Wall,
    /// The limit on processor time.
    Cpu,
}

/// Counters of the container's cgroup during the job, `None` if the kernel does not provide them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupStats {
    /// Number of processes killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Peak memory in bytes.
    pub peak_memory: Option<u64>,
    /// Processor time in microseconds.
    pub cpu_us: Option<u64>,
    /// Number of processes and threads that the kernel refused to create.
    pub forks_refused: Option<u64>,
}

const READY: u8 = 16;
const STARTED: u8 = 17;
const STDOUT: u8 = 18;
const STDERR: u8 = 19;
const INPUT_CREDIT: u8 = 20;
const QUERY: u8 = 21;
const JOB_EXIT: u8 = 22;
const ACCEPTED: u8 = 23;
const CONNECTION: u8 = 24;
const BOX_OPENED: u8 = 25;
const COMMAND: u8 = 26;
const SHIM_CALL: u8 = 27;

impl Event {
    /// Length limit for the payload of an event in bytes.
    pub const MAX_PAYLOAD_SIZE: usize = crate::MAX_QUERY_SIZE + 1024;

    /// Encodes the event as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready(version) => encode(READY, &version.to_be_bytes()),
            Self::Started => encode(STARTED, &[]),
            Self::Stdout(bytes) => encode(STDOUT, bytes),
            Self::Stderr(bytes) => encode(STDERR, bytes),
            Self::InputCredit(count) => encode(INPUT_CREDIT, &count.to_be_bytes()),
            Self::Query(number, bytes) => encode(QUERY, &prepend_number(*number, bytes)),
            Self::Accepted(number, port_forward) => {
                encode(ACCEPTED, &prepend_number(*number, &port_forward.to_be_bytes()))
            }
            Self::Connection(number, stream_event) => encode(CONNECTION, &stream_event.encode(*number)),
            Self::BoxOpened(opened) => encode(BOX_OPENED, &pack(opened)),
            Self::Command(number, event) => encode(COMMAND, &event.encode(*number)),
            Self::ShimCall(call) => encode(SHIM_CALL, &pack(call)),
            // Serializing numbers to JSON cannot fail.
            Self::JobExit(ended) => encode(JOB_EXIT, &serde_json::to_vec(ended).unwrap_or_default()),
        }
    }

    /// Decodes a frame. Returns `None` if the frame is not a valid event.
    #[must_use]
    pub fn decode(frame: Frame) -> Option<Self> {
        let Frame { kind, payload } = frame;
        Some(match kind {
            READY => Self::Ready(u32::from_be_bytes(payload.try_into().ok()?)),
            STARTED => Self::Started,
            STDOUT => Self::Stdout(payload),
            STDERR => Self::Stderr(payload),
            INPUT_CREDIT => Self::InputCredit(u32::from_be_bytes(payload.try_into().ok()?)),
            QUERY => {
                let (number, bytes) = split_number(payload)?;
                Self::Query(number, bytes)
            }
            ACCEPTED => {
                let (number, port_forward) = split_number(payload)?;
                Self::Accepted(number, u16::from_be_bytes(port_forward.try_into().ok()?))
            }
            CONNECTION => {
                let (number, stream_event) = StreamEvent::decode(&payload)?;
                Self::Connection(number, stream_event)
            }
            BOX_OPENED => Self::BoxOpened(unpack(&payload)?),
            COMMAND => {
                let (number, event) = CommandEvent::decode(&payload)?;
                Self::Command(number, event)
            }
            SHIM_CALL => Self::ShimCall(unpack(&payload)?),
            JOB_EXIT => Self::JobExit(serde_json::from_slice(&payload).ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::{BoxCommand, BoxSettings, NotRun, WindowSize};

    use super::*;
    use crate::command::{CommandExit, CommandRequest, HostSocket, OpenBox};
    use crate::frame::Decoder;
    use crate::{Request, Run};

    #[test]
    fn events_and_requests_round_trip() {
        let ended = JobExit {
            status: Status::Signalled(9),
            stop: Some(Stop::Wall),
            wall_us: 5,
            evidence: CgroupStats { oom_kills: Some(1), ..CgroupStats::default() },
        };
        let stream_event = [
            StreamEvent::Bytes(vec![1]),
            StreamEvent::Bytes(vec![]),
            StreamEvent::End,
            StreamEvent::Closed,
            StreamEvent::WindowUpdate(u32::MAX),
        ];
        let events = [
            Event::Ready(7),
            Event::Stdout(vec![0, 255]),
            Event::InputCredit(7),
            Event::Query(1 << 31, vec![2]),
            Event::Accepted(9, 300),
        ];
        let exit = CommandExit {
            status: Status::NotStarted(2),
            stop: None,
            not_run: Some(NotRun::NotFound("a\n".into())),
            wall_us: u64::MAX,
            oom_kills: None,
        };
        let call = ShimCall {
            argv: vec![serde_bytes::ByteBuf::from([0xff, 10])],
            status: -1,
            wall: std::time::Duration::MAX,
            is_denied: true,
            spilled: Some("/tmp/x".into()),
        };
        let box_events = [
            Event::BoxOpened(BoxOpened { has_socket: true, shims: vec!["cat".into()] }),
            Event::Command(0, CommandEvent::Stdout(vec![0, 255])),
            Event::Command(1, CommandEvent::Stderr(vec![])),
            Event::Command(2, CommandEvent::InputCredit(u32::MAX)),
            Event::Command(u32::MAX, CommandEvent::Ended(exit)),
            Event::ShimCall(Box::new(call)),
        ];
        let events: Vec<Event> = events.into_iter().chain(box_events).collect();
        let connection_events = stream_event.clone().map(|stream_event| Event::Connection(7, stream_event));
        for event in events.into_iter().chain(connection_events).chain([Event::JobExit(ended)]) {
            let mut decoder = Decoder::new(Event::MAX_PAYLOAD_SIZE);
            decoder.push(&event.encode());
            let frame = decoder.next_frame().expect("the length is valid").expect("the frame is complete");
            assert_eq!(Event::decode(frame), Some(event));
        }
        let run = Run {
            argv: vec!["a".into(), "ü\n".into()],
            env: vec![("A".into(), "=".into())],
            from_image: vec!["PATH".into()],
            cwd: "/work".into(),
            query_permission: crate::QueryPermission::Allowed,
            port_forwards: vec![crate::port_forward::PortForward { address: [127, 77, 0, 1].into(), port: 80 }],
            terminal: Some(WindowSize { rows: 2, columns: 300 }),
            terminal_edits: true,
            wall_ms: None,
            cpu_ms: Some(1),
        };
        let answer = Request::Answer(u32::MAX, vec![]);
        let command = BoxCommand {
            env: vec![(serde_bytes::ByteBuf::from(b"A".to_vec()), serde_bytes::ByteBuf::from(vec![0xfe]))],
            terminal: Some(WindowSize { rows: 1, columns: u16::MAX }),
            ..BoxCommand::new([b"a\tb".to_vec(), vec![0xff], vec![]])
        };
        let open = OpenBox {
            env: vec![("A".into(), "=".into())],
            from_image: vec![],
            cwd: "/work".into(),
            settings: BoxSettings { shims: ["cat".to_owned()].into(), ..BoxSettings::default() },
            port_forwards: vec![],
            socket: Some(HostSocket { path: "/x".into(), token: vec![1, 2] }),
        };
        let box_requests = [
            CommandRequest::Start(Box::new(command)),
            CommandRequest::Input(vec![0, 255]),
            CommandRequest::InputEnd,
            CommandRequest::OutputCredit(1),
            CommandRequest::Signal(9),
            CommandRequest::Resize(WindowSize { rows: 3, columns: 4 }),
            CommandRequest::Abandon,
        ];
        let box_requests = box_requests.map(|request| Request::Command(7, request));
        let requests = [
            Request::OpenBox(Box::new(open)),
            Request::Run(run),
            Request::Input(vec![1]),
            Request::InputEnd,
            Request::Signal(2),
            answer,
        ];
        for request in requests
            .into_iter()
            .chain(box_requests)
            .chain(stream_event.map(|stream_event| Request::Connection(u32::MAX, stream_event)))
        {
            let mut decoder = Decoder::new(Request::MAX_PAYLOAD_SIZE);
            decoder.push(&request.encode());
            let frame = decoder.next_frame().expect("the length is valid").expect("the frame is complete");
            assert_eq!(Request::decode(frame), Some(request));
        }
    }

    #[test]
    fn rejects_invalid_events() {
        for (kind, payload) in [
            (0, vec![]),
            (INPUT_CREDIT, vec![1]),
            (QUERY, vec![0; 3]),
            (ACCEPTED, vec![0; 5]),
            (CONNECTION, vec![0; 4]),
            (CONNECTION, vec![0, 0, 0, 0, 9]),
            (JOB_EXIT, b"{}".to_vec()),
            (JOB_EXIT, vec![0xff]),
            (READY, vec![]),
            (BOX_OPENED, vec![0xc1]),
            (COMMAND, vec![0, 0, 0, 0, 9]),
            (COMMAND, vec![0, 0, 0, 0, 2, 1]),
            (SHIM_CALL, vec![0x90]),
        ] {
            assert_eq!(Event::decode(Frame { kind, payload }), None);
        }
    }
}
