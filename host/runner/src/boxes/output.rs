//! Output of a command in a box, of which the caller may get the first part.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use codebox_core::{ByteSize, CapturedOutput, Limit, OutputShape, OutputShaper, SpilledOutput};
use codebox_streams::Output;

/// Time for which a command may go on writing above its limit before it is stopped, as a job may.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// One output stream.
pub(super) struct CommandOutput {
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
    None(Option<PathBuf>),
    Open(File, PathBuf),
    /// The file cannot be written.
    Failed,
}

/// Result of a write.
pub(super) struct Written {
    /// Bytes for the caller.
    pub shown: Vec<u8>,
    /// True if the command has to be stopped: it goes on writing above its limit.
    pub is_flood: bool,
}

impl CommandOutput {
    /// Creates a stream. `is_captured` keeps the output for the report.
    pub(super) fn new(
        limit: Limit<ByteSize>,
        shape: Option<OutputShape>,
        spill: Option<PathBuf>,
        is_captured: bool,
    ) -> Self {
        let shaper = shape.map(OutputShaper::new);
        let whole = (is_captured && shape.is_none()).then(|| Output::new(limit));
        let (limit, spill) = (limit.at().map(ByteSize::get), Spill::None(spill));
        let (shown, start) = (Vec::new(), Vec::new());
        Self { whole, limit, overflowed: None, total: 0, shaper, is_captured, shown, start, spill }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Written {
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

    /// Writes to the file of the whole output, which is created first.
    fn spill(&mut self, bytes: &[u8]) {
        if let Spill::None(Some(path)) = &self.spill {
            let mut options = File::options();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            self.spill = match options.open(path) {
                Ok(file) => Spill::Open(file, path.clone()),
                Err(_) => Spill::Failed,
            };
        }
        let start = std::mem::take(&mut self.start);
        if let Spill::Open(file, _) = &mut self.spill
            && file.write_all(&start).and_then(|()| file.write_all(bytes)).is_err()
        {
            self.spill = Spill::Failed;
        }
    }

    /// Returns the end of the output for the caller. Call it once.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let rest = self.shaper.as_mut().map(OutputShaper::finish).unwrap_or_default();
        if self.is_captured {
            self.shown.extend(&rest);
        }
        rest
    }

    /// Returns the file with the whole output, if the caller got a part of it.
    pub(super) fn spilled(&self, stream: &str) -> Option<SpilledOutput> {
        let Spill::Open(_, path) = &self.spill else { return None };
        let bytes = self.limit.map_or(self.total, |limit| limit.min(self.total));
        Some(SpilledOutput { stream: stream.to_owned(), path: path.display().to_string(), bytes })
    }

    /// Returns the output for the report: what the caller got, without the bytes if it got them live, and the number of those that are neither
    /// there nor in the file.
    pub(super) fn captured(self) -> CapturedOutput {
        let above = self.limit.map_or(0, |limit| self.total.saturating_sub(limit));
        let dropped = match (&self.shaper, &self.spill) {
            // The caller got a part, and no file has the rest.
            (Some(shaper), Spill::None(_) | Spill::Failed) if shaper.is_cut() => self.total,
            _ => above,
        };
        match self.whole {
            Some(whole) => whole.finish(),
            None => CapturedOutput { head: self.shown, tail: Vec::new(), dropped },
        }
    }
}
