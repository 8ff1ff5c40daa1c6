//! Directories of this machine in a virtual machine.
//!
//! The kernel of the machine sends its requests for files in the form of [FUSE](https://docs.kernel.org/filesystems/fuse.html), over a stream of
//! the connection. This side answers them below one directory, so that both sides see the same files at any time. No request leads out of
//! the directory: names are single components, and links are read and never followed.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebox_core::{Access, VmPath};
use codebox_vm_guest::{MAX_SHARE_MESSAGE, Reply, Request};
use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::passthrough::{CachePolicy, Config, PassthroughFs};
use fuse_backend_rs::transport::{FuseBuf, FuseDevWriter, Reader};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::channel::{Channel, Stream, lost, refused};
use crate::error::{Layer, VmError};

mod guarded;

use guarded::Guarded;

/// Maximum number of requests of a directory that are answered at once.
const CONCURRENT: usize = 4;

/// Time for which the machine trusts what it knows about files that do not change.
const CONSTANT: Duration = Duration::from_secs(24 * 60 * 60);

/// Directory of this machine to share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSpec {
    /// The directory. Its path has no links.
    pub path: PathBuf,
    /// Access of the machine.
    pub access: Access,
    /// True if its files do not change, so that the machine may keep them.
    pub is_constant: bool,
}

/// Directory of this machine in a virtual machine. It ends when this is dropped.
#[derive(Debug)]
pub struct Share {
    path: VmPath,
    _serving: JoinSet<()>,
}

impl Share {
    /// Returns the path in the machine.
    #[must_use]
    pub fn path(&self) -> &VmPath {
        &self.path
    }
}

impl Channel {
    /// Mounts a directory of this machine in the virtual machine.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be opened, or the machine cannot mount it.
    pub async fn share(&self, spec: &ShareSpec) -> Result<Share, VmError> {
        let server = Arc::new(server(spec).map_err(|error| {
            let reason = format!("cannot share {}: {error}", spec.path.display());
            VmError::new(Layer::Vm, reason, "check that the directory exists and that you may read it")
        })?);
        let request = Request::Share { read_only: spec.access == Access::ReadOnly };
        let (path, stream) = match self.request(&request).await? {
            (Reply::Shared(path), stream) => (path, stream),
            (reply, _) => return Err(refused(Layer::Vm, reply)),
        };
        let path = VmPath::new(&path).map_err(|error| lost(&io::Error::other(error)))?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // The end of the stream is that of the share.
            let _ = serve(&server, stream).await;
        });
        Ok(Share { path, _serving: serving })
    }
}

type FileServer = Server<Guarded>;

fn server(spec: &ShareSpec) -> io::Result<FileServer> {
    // The library opens its root by a path, also when the machine begins. A directory that is opened here without following a link is named
    // by its descriptor; the last component keeps that name from being opened as a link.
    let root = codebox_files::open_dir_without_symlinks(&spec.path)?;
    let root_dir = format!("/proc/self/fd/{}/.", root.as_raw_fd());
    let (time, cache_policy) = match spec.is_constant {
        true => (CONSTANT, CachePolicy::Always),
        false => (Duration::ZERO, CachePolicy::Auto),
    };
    let config = Config { root_dir, attr_timeout: time, entry_timeout: time, cache_policy, ..Config::default() };
    let files = PassthroughFs::new(config)?;
    files.import()?;
    Ok(Server::new(Guarded::new(files, spec.access, root)))
}

/// Answers requests until the machine ends the stream, or sends one that is invalid.
async fn serve(server: &Arc<FileServer>, stream: Stream) -> io::Result<()> {
    let (mut requests, mut answers) = tokio::io::split(stream);
    let (sender, mut ready) = mpsc::channel::<io::Result<Vec<u8>>>(CONCURRENT);
    let answering = async {
        while let Some(answer) = ready.recv().await {
            answers.write_all(&answer?).await?;
            answers.flush().await?;
        }
        Ok(())
    };
    let reading = async {
        let turns = Arc::new(Semaphore::new(CONCURRENT));
        let workers = Arc::new(Mutex::new(Vec::new()));
        loop {
            let message = read_message(&mut requests).await?;
            let turn = Arc::clone(&turns).acquire_owned().await.map_err(io::Error::other)?;
            let (server, workers, sender) = (Arc::clone(server), Arc::clone(&workers), sender.clone());
            tokio::task::spawn_blocking(move || {
                let free = || workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let answer = free().map_or_else(Worker::new, Ok).and_then(|mut worker: Worker| {
                    let answer = worker.answer(&server, message);
                    workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                    answer
                });
                let _ = sender.blocking_send(answer);
                drop(turn);
            });
        }
    };
    tokio::select! {
        done = answering => done,
        done = reading => done,
    }
}

/// Reads a request, which begins with its length.
async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await?;
    let size = usize::try_from(length).ok().filter(|size| (size_of::<u32>()..=MAX_SHARE_MESSAGE).contains(size));
    let mut message = vec![0; size.ok_or(io::ErrorKind::InvalidData)?];
    let (start, rest) = message.split_at_mut(size_of::<u32>());
    start.copy_from_slice(&length.to_le_bytes());
    stream.read_exact(rest).await?;
    Ok(message)
}

/// Memory for one request at a time.
struct Worker {
    /// File that receives the answer: the library writes each to a descriptor at once.
    file: File,
    buffer: Vec<u8>,
}

impl Worker {
    fn new() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("codebox-share", rustix::fs::MemfdFlags::CLOEXEC)?);
        Ok(Self { file, buffer: vec![0; MAX_SHARE_MESSAGE] })
    }

    /// Returns the answer to a request, which is empty for one that expects none.
    fn answer(&mut self, server: &FileServer, mut message: Vec<u8>) -> io::Result<Vec<u8>> {
        self.file.rewind()?;
        let reader: Reader<'_, ()> = Reader::from_fuse_buffer(FuseBuf::new(&mut message)).map_err(io::Error::other)?;
        let writer = FuseDevWriter::new(self.file.as_raw_fd(), &mut self.buffer).map_err(io::Error::other)?;
        server.handle_message(reader, writer.into(), None, None).map_err(io::Error::other)?;
        let length = usize::try_from(self.file.stream_position()?).map_err(io::Error::other)?;
        let mut answer = vec![0; length];
        self.file.rewind()?;
        self.file.read_exact(&mut answer)?;
        Ok(answer)
    }
}
