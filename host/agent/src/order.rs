use serde::{Deserialize, Serialize};

use crate::door::{Door, Said};
use crate::frame::{Frame, encode, number_of, numbered};

/// What a host tells the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Start this job.
    Run(Run),
    /// The next bytes of the job's standard input; never more than was asked for.
    Input(Vec<u8>),
    /// The job's standard input ends here.
    InputEnd,
    /// Send this signal to every process of the job.
    Signal(u8),
    /// The answer to the question of this number; a question that nobody waits for any more takes none.
    Answer(u32, Vec<u8>),
    /// What is said of a connection; one that is there no more takes nothing.
    Way(u32, Said),
}

/// A job as the agent starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The command line; the first word is looked for in `PATH` of `env` if it has no slash.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Names whose value is the image's, where it has one and `env` has none.
    pub from_image: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// Whether its programs may ask the host.
    pub asks: Asks,
    /// Where its programs find a way out.
    pub doors: Vec<Door>,
    /// The longest it may take, in milliseconds.
    pub wall_ms: Option<u64>,
    /// The most processor time of all its processes together, in milliseconds.
    pub cpu_ms: Option<u64>,
}

/// Whether a job's programs may ask the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Asks {
    /// They may not; nothing listens.
    #[default]
    Nothing,
    /// They may, through the socket that [`ASK_SOCKET`](crate::ASK_SOCKET) names.
    Questions,
}

const RUN: u8 = 1;
const INPUT: u8 = 2;
const INPUT_END: u8 = 3;
const SIGNAL: u8 = 4;
const ANSWER: u8 = 5;
const WAY: u8 = 6;

impl Order {
    /// The longest payload of an order: a command line and an environment as long as a kernel takes, and then some.
    pub const LONGEST: usize = 16 << 20;

    /// The order as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            // A value of strings and numbers is always JSON.
            Self::Run(run) => encode(RUN, &serde_json::to_vec(run).unwrap_or_default()),
            Self::Input(bytes) => encode(INPUT, bytes),
            Self::InputEnd => encode(INPUT_END, &[]),
            Self::Signal(number) => encode(SIGNAL, &[*number]),
            Self::Answer(number, bytes) => encode(ANSWER, &numbered(*number, bytes)),
            Self::Way(number, said) => encode(WAY, &said.encode(*number)),
        }
    }

    /// The order in a frame, or nothing for one that is none.
    #[must_use]
    pub fn decode(frame: Frame) -> Option<Self> {
        let Frame { kind, payload } = frame;
        Some(match kind {
            RUN => Self::Run(serde_json::from_slice(&payload).ok()?),
            INPUT => Self::Input(payload),
            INPUT_END => Self::InputEnd,
            SIGNAL => Self::Signal(*payload.first()?),
            ANSWER => {
                let (number, bytes) = number_of(payload)?;
                Self::Answer(number, bytes)
            }
            WAY => {
                let (number, said) = Said::decode(&payload)?;
                Self::Way(number, said)
            }
            _ => return None,
        })
    }
}
