//! Messages between client, host process and worker.
//!
//! Client and host exchange packets of at most [`MAX_PACKET`] bytes. All numbers are little-endian. Nothing in a packet of
//! a client is trusted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::program::ProgramId;

/// First bytes of a client's first packet; the number is the version of the protocol.
const MAGIC: &[u8; 8] = b"codebox1";

/// Bytes of the secret that only processes with access to the host process can read.
pub(crate) const TOKEN_SIZE: usize = 32;

/// Maximum size of a packet in bytes.
pub(crate) const MAX_PACKET: usize = 256;

/// Maximum size of a job in bytes. The system limits arguments and environment to less.
pub(crate) const MAX_JOB: u64 = 16 << 20;

/// Number of descriptors of a run: standard input, output and error, the working directory, and the job.
pub(crate) const RUN_DESCRIPTORS: usize = 5;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Run,
    Status,
    Stop,
}

/// The first packet of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub kind: RequestKind,
    pub program: ProgramId,
    pub token: [u8; TOKEN_SIZE],
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut packet = MAGIC.to_vec();
        packet.push(match self.kind {
            RequestKind::Run => b'r',
            RequestKind::Status => b's',
            RequestKind::Stop => b'q',
        });
        packet.extend(self.program.to_bytes());
        packet.extend(self.token);
        packet
    }

    /// Decodes a packet; `None` if it is malformed or of another version.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let (kind, rest) = packet.strip_prefix(MAGIC)?.split_first()?;
        let kind = match kind {
            b'r' => RequestKind::Run,
            b's' => RequestKind::Status,
            b'q' => RequestKind::Stop,
            _ => return None,
        };
        let (program, token) = rest.split_first_chunk()?;
        Some(Self { kind, program: ProgramId::from_bytes(program), token: token.try_into().ok()? })
    }
}

/// State of a host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Process number of the host process.
    pub pid: u32,
    /// Number of runs accepted so far.
    pub runs: u64,
    /// Number of runs in progress.
    pub active: u32,
    /// Seconds since the host process started.
    pub age: u64,
    /// Seconds without a run after which the host process ends.
    pub idle_limit: u64,
}

/// A packet of the host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The client runs the job itself.
    Refused,
    /// A worker runs the job.
    Accepted,
    /// The worker exited with this status.
    Exited(u8),
    /// The worker was ended by this signal.
    Killed(u8),
    Status(Status),
    /// The host process ends.
    Stopping,
}

impl Reply {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::Refused => b"n".to_vec(),
            Self::Accepted => b"a".to_vec(),
            Self::Exited(status) => vec![b'x', status],
            Self::Killed(signal) => vec![b'k', signal],
            Self::Stopping => b"q".to_vec(),
            Self::Status(Status { pid, runs, active, age, idle_limit }) => {
                let mut packet = b"s".to_vec();
                packet.extend(pid.to_le_bytes());
                packet.extend(active.to_le_bytes());
                for number in [runs, age, idle_limit] {
                    packet.extend(number.to_le_bytes());
                }
                packet
            }
        }
    }

    /// Decodes a packet; `None` if it is malformed.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        Some(match packet {
            b"n" => Self::Refused,
            b"a" => Self::Accepted,
            b"q" => Self::Stopping,
            [b'x', status] => Self::Exited(*status),
            [b'k', signal] => Self::Killed(*signal),
            [b's', rest @ ..] => {
                let (pid, rest) = rest.split_first_chunk()?;
                let (active, rest) = rest.split_first_chunk()?;
                let (runs, rest) = rest.split_first_chunk()?;
                let (age, idle_limit) = rest.split_first_chunk()?;
                Self::Status(Status {
                    pid: u32::from_le_bytes(*pid),
                    active: u32::from_le_bytes(*active),
                    runs: u64::from_le_bytes(*runs),
                    age: u64::from_le_bytes(*age),
                    idle_limit: u64::from_le_bytes(idle_limit.try_into().ok()?),
                })
            }
            _ => return None,
        })
    }
}

/// The parts of a client's process that a worker takes over, besides its descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Job {
    /// The command line, with the program's name.
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    /// Permissions that new files do not get.
    pub umask: u32,
    /// Bit mask of the signals that the client ignores.
    pub ignored_signals: u64,
}

impl Job {
    /// Encodes the job: three numbers, and NUL-terminated strings. Arguments and variables contain no NUL.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.umask.to_le_bytes().to_vec();
        bytes.extend(self.ignored_signals.to_le_bytes());
        bytes.extend((self.args.len() as u32).to_le_bytes());
        let mut push = |parts: &[&OsStr]| {
            parts.iter().for_each(|part| bytes.extend(part.as_bytes()));
            bytes.push(0);
        };
        self.args.iter().for_each(|arg| push(&[arg]));
        self.env.iter().for_each(|(name, value)| push(&[name, OsStr::new("="), value]));
        bytes
    }

    /// Decodes a job; `None` if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (umask, rest) = bytes.split_first_chunk()?;
        let (ignored_signals, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        let strings = match rest.split_last() {
            Some((0, strings)) => strings.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect(),
            Some(_) => return None,
            None => Vec::new(),
        };
        let mut strings: Vec<Vec<u8>> = strings;
        if strings.len() < count {
            return None;
        }
        let env = strings.split_off(count).into_iter().map(|variable| {
            // A name may start with an equals sign, but is not empty.
            let end = 1 + variable.iter().skip(1).position(|byte| *byte == b'=')?;
            let value = OsString::from_vec(variable[end + 1..].to_vec());
            Some((OsString::from_vec(variable[..end].to_vec()), value))
        });
        Some(Self {
            env: env.collect::<Option<_>>()?,
            args: strings.into_iter().map(OsString::from_vec).collect(),
            umask: u32::from_le_bytes(*umask),
            ignored_signals: u64::from_le_bytes(*ignored_signals),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello { kind: RequestKind::Run, program: ProgramId::from_bytes(&[3; ProgramId::SIZE]), token: [9; TOKEN_SIZE] }
    }

    #[test]
    fn messages_round_trip() {
        for kind in [RequestKind::Run, RequestKind::Status, RequestKind::Stop] {
            let hello = Hello { kind, ..hello() };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
        let status = Status { pid: 7, runs: 1 << 40, active: 3, age: 5, idle_limit: 600 };
        let replies = [
            Reply::Refused,
            Reply::Accepted,
            Reply::Exited(3),
            Reply::Killed(9),
            Reply::Status(status),
            Reply::Stopping,
        ];
        for reply in replies {
            assert!(reply.encode().len() <= MAX_PACKET);
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        let job = Job {
            args: ["codebox", "run", "", "-c", "print('\u{e9}\n')"].map(OsString::from).to_vec(),
            env: vec![("A".into(), "b=c".into()), ("E".into(), "".into()), ("=x".into(), "y".into())],
            umask: 0o27,
            ignored_signals: 1 << 63,
        };
        assert_eq!(Job::decode(&job.encode()), Some(job));
        assert_eq!(Job::decode(&Job::default().encode()), Some(Job::default()));
    }

    #[test]
    fn malformed_messages_are_rejected() {
        let good = hello().encode();
        for bad in [&b""[..], b"codebox1", b"codebox2r", &good[..good.len() - 1], &[&good[..], b"x"].concat()] {
            assert_eq!(Hello::decode(bad), None);
        }
        for bad in [&b""[..], b"x", b"xyz", b"s", b"s123", b"aa", b"?"] {
            assert_eq!(Reply::decode(bad), None);
        }
        let head = [0; 12];
        for bad in
            [&b""[..], &head, &[&head[..], &[2, 0, 0, 0], b"one\0"].concat(), &[&head[..], &[0; 4], b"A=b"].concat()]
        {
            assert_eq!(Job::decode(bad), None);
        }
        assert_eq!(Job::decode(&[&head[..], &[0; 4], b"novalue\0"].concat()), None);
    }

    proptest! {
        #[test]
        fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Hello::decode(&bytes);
            let _ = Reply::decode(&bytes);
            let _ = Job::decode(&bytes);
            let _ = Job::decode(&[&[0; 12][..], &bytes].concat());
        }
    }
}
