//! Output of which the caller may get the first part.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codebox_core::{ByteSize, CapturedOutput, Limit, OutputShape, OutputShaper, SpilledOutput};
use codebox_streams::Output;

/// Time for which a command may go on writing above its limit before it is stopped, as a job may.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// One output stream.
pub(crate) struct LimitedOutput {
    /// The whole output, up to the limit of the command, if nothing else keeps it.
    whole: Option<Output>,
    limit: Option<u64>,
    /// Time of the first byte above the limit.
    overflowed: Option<Instant>,
    total: u64,
    shaper: Option<OutputShaper>,
    is_captured: bool,
    shown: Vec<u8>,
    /// The output before the cut.
    start: Vec<u8>,
    spill: Spill,
}

enum Spill {
    /// The output is not cut, or no file is wanted.
    None(Option<SpillFile>),
    Open(File, PathBuf),
    /// The file cannot be written.
    Failed(io::Error),
}

/// File for the whole output, if the caller gets a part of it.
pub(crate) enum SpillFile {
    /// The file is created when the output is cut.
    New(PathBuf),
    /// The file exists, for a process that cannot create it later.
    Open(File, PathBuf),
}

impl SpillFile {
    /// Creates the file of a path.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        Ok(Self::Open(create(&path)?, path))
    }

    fn open(self) -> io::Result<(File, PathBuf)> {
        match self {
            Self::New(path) => Ok((create(&path)?, path)),
            Self::Open(file, path) => Ok((file, path)),
        }
    }
}

/// Creates a file for this user alone, in the place of no other.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // The files of runs that have ended can be removed.
    file.lock()?;
    Ok(file)
}

/// Result of a write.
pub(crate) struct Written {
    /// Bytes for the caller.
    pub shown: Vec<u8>,
    /// True if the command has to be stopped: it goes on writing above its limit.
    pub is_flood: bool,
}

impl LimitedOutput {
    /// Creates a stream. `is_captured` keeps the output for the report.
    pub(crate) fn new(
        limit: Limit<ByteSize>,
        shape: Option<OutputShape>,
        spill: Option<SpillFile>,
        is_captured: bool,
    ) -> Self {
        let shaper = shape.map(OutputShaper::new);
        let whole = (is_captured && shape.is_none()).then(|| Output::new(limit));
        let (limit, spill) = (limit.at().map(ByteSize::get), Spill::None(spill));
        let (shown, start) = (Vec::new(), Vec::new());
        Self { whole, limit, overflowed: None, total: 0, shaper, is_captured, shown, start, spill }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Written {
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.total));
        let fits = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.total += bytes.len() as u64;
        let is_flood = fits < bytes.len() && self.overflowed.get_or_insert_with(Instant::now).elapsed() > GRACE_PERIOD;
        if let Some(whole) = &mut self.whole {
            // The flood is found above.
            let _ = whole.write(bytes);
        }
        let bytes = &bytes[..fits];
        let Some(shaper) = &mut self.shaper else { return Written { shown: bytes.to_vec(), is_flood } };
        let shown = shaper.push(bytes);
        let is_cut = shaper.is_cut();
        if self.is_captured {
            self.shown.extend(&shown);
        }
        if is_cut {
            self.spill(bytes);
        } else {
            self.start.extend(bytes);
        }
        Written { shown, is_flood }
    }

    /// Writes to the file of the whole output, which is created first if it does not exist.
    fn spill(&mut self, bytes: &[u8]) {
        if let Spill::None(file) = &mut self.spill
            && let Some(file) = file.take()
        {
            self.spill = file.open().map_or_else(Spill::Failed, |(file, path)| Spill::Open(file, path));
        }
        let start = std::mem::take(&mut self.start);
        if let Spill::Open(file, _) = &mut self.spill
            && let Err(error) = file.write_all(&start).and_then(|()| file.write_all(bytes))
        {
            self.spill = Spill::Failed(error);
        }
    }

    /// Returns the end of the output for the caller. Call it once.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let rest = self.shaper.as_mut().map(OutputShaper::finish).unwrap_or_default();
        if self.is_captured {
            self.shown.extend(&rest);
        }
        rest
    }

    /// Returns the file with the whole output, if the caller got a part of it.
    pub(crate) fn spilled(&self, stream: &str) -> Option<SpilledOutput> {
        let Spill::Open(_, path) = &self.spill else { return None };
        let bytes = self.limit.map_or(self.total, |limit| limit.min(self.total));
        Some(SpilledOutput { stream: stream.to_owned(), path: path.display().to_string(), bytes })
    }

    /// Returns the output that the caller got, if it is captured.
    pub(crate) fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// Returns the reason that the file cannot be written.
    pub(crate) fn spill_error(&self) -> Option<&io::Error> {
        match &self.spill {
            Spill::Failed(error) => Some(error),
            Spill::None(_) | Spill::Open(..) => None,
        }
    }

    /// Removes a file that was created for output that is not cut.
    pub(crate) fn remove_unused_file(&mut self) {
        if let Spill::None(file) = &mut self.spill
            && let Some(SpillFile::Open(_, path)) = file.take()
        {
            // A confined process cannot remove it; a later run does.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Returns the output for the report: what the caller got, without the bytes if it got them live, and the number of those that are neither
    /// there nor in the file.
    pub(crate) fn captured(self) -> CapturedOutput {
        let above = self.limit.map_or(0, |limit| self.total.saturating_sub(limit));
        let dropped = match (&self.shaper, &self.spill) {
            // The caller got a part, and no file has the rest.
            (Some(shaper), Spill::None(_) | Spill::Failed(_)) if shaper.is_cut() => self.total - shaper.passed(),
            _ => above,
        };
        match self.whole {
            Some(whole) => whole.finish(),
            None => CapturedOutput { head: self.shown, tail: Vec::new(), dropped },
        }
    }
}
