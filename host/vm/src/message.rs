//! Messages between the process that keeps the machine and its clients, one line of JSON each.

use std::io;
use std::path::PathBuf;

use codebox_core::VmPath;
use codebox_vm_guest::Exec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::error::VmError;
use crate::share::ShareSpec;

/// Version of the messages: that of codebox, so that no process serves the clients of another version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 16 << 20;

/// First and only line of a client. What the answer promises lasts as long as the connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: String,
    pub request: Request,
}

/// Request of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Starts the machine unless it runs, and uses it.
    Use,
    /// Uses directories and files of this machine in the virtual machine, which is started first.
    Place(PlaceRequest),
    /// Runs a command. After the answer, the client sends its standard input in pieces, each after its length in four bytes, and an empty one
    /// at the end. It receives the output as the machine sends it.
    Run(Exec),
    /// Facts about the machine, which is not started.
    Status,
    /// Turns the machine off, and ends the process.
    Down,
}

/// Directories and files that a job needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRequest {
    /// Directories.
    pub dirs: Vec<ShareSpec>,
    /// Files, which do not change. The machine has copies.
    pub files: Vec<PathBuf>,
}

/// Answer to a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// A step of the start has begun.
    Progress(String),
    /// The machine runs.
    Ready(Ready),
    /// Paths in the machine, in the order of the request: directories, then files.
    Placed(Vec<VmPath>),
    /// The command has started.
    Started,
    /// Facts about the machine.
    Status(Box<Status>),
    /// The request is performed.
    Done,
    /// The request failed.
    Failed(VmError),
}

/// Machine that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Socket of this machine that is connected to Podman.
    pub socket: PathBuf,
    /// User that Podman and its containers belong to.
    pub user: u32,
    /// Group of cgroup v2 for containers.
    pub group: String,
}

/// Facts about a machine and the process that keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Facts from the machine; `None` if it does not run.
    pub facts: Option<codebox_vm_guest::Facts>,
    /// Number of uses.
    pub uses: usize,
    /// Directories of this machine that it sees.
    pub shared: Vec<PathBuf>,
    /// Id of the process.
    pub pid: u32,
}

/// Reads a line; `None` at the end.
pub(crate) async fn read<T: DeserializeOwned>(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    if from.take(MAX_LINE).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::other)
}

/// Writes a line.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}
