use serde::{Deserialize, Serialize};

use crate::door::Said;
use crate::frame::{Frame, encode, number_of, numbered};

/// An event that the agent reports to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Readiness of the agent for a job.
    Ready,
    /// Start of the job's program.
    Started,
    /// Next bytes of the job's standard output.
    Stdout(Vec<u8>),
    /// Next bytes of the job's standard error.
    Stderr(Vec<u8>),
    /// Number of further bytes of input that the host may send.
    Wants(u32),
    /// Query of the job to the host, with a number that is unique among the queries of this agent. The job waits for
    /// the [`Answer`](crate::Order::Answer) with that number. At most [`MAX_ASKED`](crate::MAX_ASKED) queries wait at
    /// one time.
    Ask(u32, Vec<u8>),
    /// Number of a new connection, unique among the open ones, and index of the port forward to which a program of the
    /// job has connected.
    Knock(u32, u16),
    /// Event of the connection with this number.
    Way(u32, Said),
    /// End of the job: all processes have ended and all output has been sent.
    Ended(Ended),
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Status of the job's first process.
    pub status: Status,
    /// Reason for which the agent killed the job, if it did.
    pub stop: Option<Stop>,
    /// Time from start to end, in microseconds.
    pub wall_us: u64,
    /// Counters of the kernel.
    pub evidence: Evidence,
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
pub struct Evidence {
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
const WANTS: u8 = 20;
const ASK: u8 = 21;
const ENDED: u8 = 22;
const KNOCK: u8 = 23;
const WAY: u8 = 24;

impl Word {
    /// Length limit for the payload of an event in bytes.
    pub const LONGEST: usize = crate::MAX_ASK + 1024;

    /// Encodes the event as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready => encode(READY, &[]),
            Self::Started => encode(STARTED, &[]),
            Self::Stdout(bytes) => encode(STDOUT, bytes),
            Self::Stderr(bytes) => encode(STDERR, bytes),
            Self::Wants(count) => encode(WANTS, &count.to_be_bytes()),
            Self::Ask(number, bytes) => encode(ASK, &numbered(*number, bytes)),
            Self::Knock(number, door) => encode(KNOCK, &numbered(*number, &door.to_be_bytes())),
            Self::Way(number, said) => encode(WAY, &said.encode(*number)),
            // Serializing numbers to JSON cannot fail.
            Self::Ended(ended) => encode(ENDED, &serde_json::to_vec(ended).unwrap_or_default()),
        }
    }

    /// Decodes a frame. Returns `None` if the frame is not a valid event.
    #[must_use]
    pub fn decode(frame: Frame) -> Option<Self> {
        let Frame { kind, payload } = frame;
        Some(match kind {
            READY => Self::Ready,
            STARTED => Self::Started,
            STDOUT => Self::Stdout(payload),
            STDERR => Self::Stderr(payload),
            WANTS => Self::Wants(u32::from_be_bytes(payload.try_into().ok()?)),
            ASK => {
                let (number, bytes) = number_of(payload)?;
                Self::Ask(number, bytes)
            }
            KNOCK => {
                let (number, door) = number_of(payload)?;
                Self::Knock(number, u16::from_be_bytes(door.try_into().ok()?))
            }
            WAY => {
                let (number, said) = Said::decode(&payload)?;
                Self::Way(number, said)
            }
            ENDED => Self::Ended(serde_json::from_slice(&payload).ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;
    use crate::{Order, Run};

    #[test]
    fn words_and_orders_survive_the_wire() {
        let ended = Ended {
            status: Status::Signalled(9),
            stop: Some(Stop::Wall),
            wall_us: 5,
            evidence: Evidence { oom_kills: Some(1), ..Evidence::default() },
        };
        let said = [Said::Bytes(vec![1]), Said::Bytes(vec![]), Said::End, Said::Gone, Said::Taken(u32::MAX)];
        let words =
            [Word::Ready, Word::Stdout(vec![0, 255]), Word::Wants(7), Word::Ask(1 << 31, vec![2]), Word::Knock(9, 300)];
        let ways = said.clone().map(|said| Word::Way(7, said));
        for word in words.into_iter().chain(ways).chain([Word::Ended(ended)]) {
            let mut decoder = Decoder::new(Word::LONGEST);
            decoder.push(&word.encode());
            let frame = decoder.next_frame().expect("it is short").expect("it is whole");
            assert_eq!(Word::decode(frame), Some(word));
        }
        let run = Run {
            argv: vec!["a".into(), "ü\n".into()],
            env: vec![("A".into(), "=".into())],
            from_image: vec!["PATH".into()],
            cwd: "/work".into(),
            asks: crate::Asks::Questions,
            doors: vec![crate::door::Door { address: [127, 77, 0, 1].into(), port: 80 }],
            wall_ms: None,
            cpu_ms: Some(1),
        };
        let answer = Order::Answer(u32::MAX, vec![]);
        let orders = [Order::Run(run), Order::Input(vec![1]), Order::InputEnd, Order::Signal(2), answer];
        for order in orders.into_iter().chain(said.map(|said| Order::Way(u32::MAX, said))) {
            let mut decoder = Decoder::new(Order::LONGEST);
            decoder.push(&order.encode());
            let frame = decoder.next_frame().expect("it is short").expect("it is whole");
            assert_eq!(Order::decode(frame), Some(order));
        }
    }

    #[test]
    fn what_is_no_word_is_nothing() {
        for (kind, payload) in [
            (0, vec![]),
            (WANTS, vec![1]),
            (ASK, vec![0; 3]),
            (KNOCK, vec![0; 5]),
            (WAY, vec![0; 4]),
            (WAY, vec![0, 0, 0, 0, 9]),
            (ENDED, b"{}".to_vec()),
            (ENDED, vec![0xff]),
        ] {
            assert_eq!(Word::decode(Frame { kind, payload }), None);
        }
    }
}
