//! Output of a command with a shim, of which its caller gets the first part. The shim writes it, so that a caller that does not read keeps
//! no other one waiting.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;

use codebox_agent::command::{SPILL_DIR, ShimEvent};
use codebox_core::{OutputShape, OutputShaper};
use rustix::fs::{Mode, OFlags, open, openat};
use tokio::sync::mpsc::UnboundedSender;

use super::stream::OutputStream;

/// Most bytes of one output, of which the file has all.
pub(super) const MAX_SPILLED: u64 = 16 << 20;

/// Number of calls whose files are kept.
pub(super) const KEPT_CALLS: u64 = 16;

/// Bytes that are read at one time.
const CHUNK_SIZE: usize = 64 << 10;

/// One output stream that is cut.
pub(super) struct Shaped {
    pipe: Option<OutputStream>,
    shaper: OutputShaper,
    /// The stream of the caller, 1 or 2.
    number: u8,
    to_shim: UnboundedSender<ShimEvent>,
    /// The text so far, until it is cut.
    start: Vec<u8>,
    spill: Option<Spill>,
    /// Name of the file for the whole text.
    name: String,
}

struct Spill {
    /// `None` if it cannot be written.
    file: Option<File>,
    left: u64,
}

impl Shaped {
    /// Creates an output with this end of a pipe, whose text is sent to the shim for the stream `number` and, if it is cut, written to the
    /// file `name`.
    pub(super) fn new(
        pipe: OwnedFd,
        number: u8,
        to_shim: UnboundedSender<ShimEvent>,
        shape: OutputShape,
        name: &str,
    ) -> io::Result<Self> {
        let (shaper, name) = (OutputShaper::new(shape), name.to_owned());
        let pipe = Some(OutputStream::new(pipe)?);
        Ok(Self { pipe, shaper, number, to_shim, start: Vec::new(), spill: None, name })
    }

    /// Reads a part of the output; never completes after its end. Cancel safe.
    pub(super) async fn read(&self) -> Vec<u8> {
        match &self.pipe {
            Some(pipe) => pipe.read(CHUNK_SIZE).await,
            None => std::future::pending().await,
        }
    }

    /// Returns true if the command has written more than the maximum, so that it has to be stopped.
    pub(super) fn is_over(&self) -> bool {
        self.spill.as_ref().is_some_and(|spill| spill.left == 0)
    }

    /// Passes on a part of the output. An empty one is its end.
    pub(super) fn pass_on(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.pipe = None;
            return;
        }
        let shown = self.shaper.push(&bytes);
        if self.shaper.is_cut() {
            let start = std::mem::take(&mut self.start);
            let name = &self.name;
            let spill = self.spill.get_or_insert_with(|| Spill { file: create(name).ok(), left: MAX_SPILLED });
            spill.write(&start);
            spill.write(&bytes);
        } else {
            self.start.extend(&bytes);
        }
        self.write(shown);
    }

    /// Passes on the output that is there after the end of the command, and the mark of a cut. Returns the file with all of a text
    /// that was cut.
    pub(super) fn finish(mut self) -> Option<String> {
        while let Some(bytes) = self.pipe.as_ref().and_then(|pipe| pipe.read_available(CHUNK_SIZE)) {
            if self.is_over() {
                break;
            }
            self.pass_on(bytes);
        }
        let end = self.shaper.finish();
        self.write(end);
        let is_written = self.spill.is_some_and(|spill| spill.file.is_some());
        is_written.then(|| format!("{SPILL_DIR}/{}", self.name))
    }

    /// Sends a part to the shim. The limits on output bound the bytes that wait.
    fn write(&self, bytes: Vec<u8>) {
        for part in bytes.chunks(ShimEvent::MAX_PAYLOAD_SIZE) {
            let _ = self.to_shim.send(ShimEvent::Output(self.number, part.to_vec()));
        }
    }
}

/// Removes the file of an earlier call.
pub(super) fn remove_earlier(name: &str) {
    if let Ok(dir) = open_dir() {
        let _ = rustix::fs::unlinkat(dir, name, rustix::fs::AtFlags::empty());
    }
}

impl Spill {
    fn write(&mut self, bytes: &[u8]) {
        let count = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.left -= count as u64;
        if let Some(file) = &mut self.file
            && file.write_all(&bytes[..count]).is_err()
        {
            self.file = None;
        }
    }
}

/// Creates a file for output. Programs of the box can put links in the place of the file and of its directory, which are refused.
fn create(name: &str) -> io::Result<File> {
    match fs::DirBuilder::new().mode(0o700).create(SPILL_DIR) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let dir = open_dir()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn open_dir() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(SPILL_DIR, flags, Mode::empty())?)
}
