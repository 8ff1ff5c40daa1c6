//! Protocol between a host and the program inside of its virtual machine.
//!
//! One pair of byte streams carries everything: a virtual serial port, or the standard streams of a command of WSL or Lima. The host begins
//! with a [greeting](GREETING) and a nonce, which the guest repeats; bytes before it are those of an earlier connection. Then the host is the
//! client of a [yamux](https://github.com/hashicorp/yamux/blob/master/spec.md) connection. Each stream of it is one [`Request`], a line
//! of JSON. The guest answers with a [`Reply`], another line.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Version of the protocol, a part of the greeting.
pub const PROTOCOL_VERSION: u32 = 1;

/// First bytes of a connection. A nonce of [`NONCE_SIZE`] bytes follows.
pub const GREETING: &[u8] = b"\0codebox-vm 1\n";

/// Length of the nonce in bytes.
pub const NONCE_SIZE: usize = 16;

/// Name of the serial port.
pub const PORT_NAME: &str = "codebox";

/// Maximum length of a request or a reply in bytes.
pub const MAX_LINE: usize = 1 << 20;

/// Socket of Podman in the virtual machine.
pub const PODMAN_SOCKET: &str = "/run/user/1000/podman.sock";

/// Maximum length of a frame of yamux in bytes. Smaller ones cost more of them, and larger ones let other streams wait.
pub const MAX_FRAME: usize = 64 << 10;

/// Maximum length of a message about shared files in bytes: a megabyte of data with its header.
pub const MAX_SHARE_MESSAGE: usize = (1 << 20) + (8 << 10);

/// Directory below which directories of the host are mounted.
pub const SHARES: &str = "/run/codebox/shares";

/// Group of cgroup v2 for containers, which the user of Podman may divide.
pub const JOBS_GROUP: &str = "/codebox/jobs";

/// User that Podman and its containers belong to.
pub const USER: u32 = 1000;

/// First line of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Connects the stream to Podman.
    Podman,
    /// Runs a command. The rest of the stream is its standard input; [`Frame`]s follow the reply.
    Exec(Exec),
    /// Mounts a directory of the host. The reply is [`Reply::Shared`]. Then the guest sends requests of FUSE over the stream and receives the
    /// answers, each of which begins with its length. The directory is unmounted at the end of the stream.
    Share {
        /// True to refuse all changes.
        read_only: bool,
    },
    /// Requests [`Facts`].
    Facts,
    /// Sets the clock to this time, in milliseconds since 1970.
    SetClock(u64),
    /// Ends all processes, and turns the machine off.
    PowerOff,
}

/// Command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Command line.
    pub argv: Vec<String>,
    /// True to run it as root, and not as the user of Podman.
    pub is_root: bool,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The request is performed.
    Done,
    /// Path of a directory of the host.
    Shared(String),
    /// Facts about the machine.
    Facts(Facts),
    /// The request failed, for this reason.
    Failed(String),
}

/// Facts about a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the image.
    pub image: String,
    /// Time since the start in milliseconds.
    pub uptime_ms: u64,
    /// Time of the machine in milliseconds since 1970.
    pub time_ms: u64,
    /// Memory in bytes, and that which is available.
    pub memory: [u64; 2],
    /// Size of the disk in bytes, and that which is available.
    pub disk: [u64; 2],
}

/// Kinds of the frames of a command: one byte, the length of the payload as four bytes (big-endian), and the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Frame {
    /// Bytes of standard output.
    Stdout = 1,
    /// Bytes of standard error.
    Stderr = 2,
    /// End, with the exit status or, for a signal, 128 and its number, as four bytes.
    Ended = 3,
}
