//! Outputs of a cell in the order in which they are written.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{ExecIo, MimeBundle, OutputSink, ResultRole, ResultSink, Shown};

/// Part of the output of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Bytes of stream 0 or 1: standard output or standard error.
    Stream(usize, Vec<u8>),
    /// Object that the cell has shown, its value, or new forms of what an earlier cell has shown.
    Result(MimeBundle),
}

/// Maximum size in bytes of the forms of one result that has several places.
const MAX_COPIES: usize = 16 << 20;

/// Returns the size of the forms of a result in bytes, as text.
fn size_of(result: &MimeBundle) -> usize {
    let size = |form: &serde_json::Value| form.as_str().map_or_else(|| form.to_string().len(), str::len);
    result.data.values().chain(result.metadata.values()).map(size).sum()
}

/// Parts so far.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    /// True if the next part removes the others.
    clears_next: bool,
}

impl Parts {
    fn write(&mut self, stream: usize, bytes: &[u8]) {
        self.clear_before_next();
        match self.parts.last_mut() {
            Some(Part::Stream(last, text)) if *last == stream => text.extend(bytes),
            _ => self.parts.push(Part::Stream(stream, bytes.to_vec())),
        }
    }

    fn show(&mut self, shown: Shown) {
        match shown {
            Shown::Clear { waits: true } => self.clears_next = true,
            Shown::Clear { waits: false } => self.parts.clear(),
            Shown::Result(result) => {
                self.clear_before_next();
                let is_same = |part: &&Part| matches!(part, Part::Result(earlier) if result.has_id_of(earlier));
                let count = self.parts.iter().filter(is_same).count();
                if count > 1 && size_of(&result).saturating_mul(count) > MAX_COPIES {
                    return;
                }
                let mut is_replaced = false;
                for part in &mut self.parts {
                    if let Part::Result(earlier) = part {
                        is_replaced |= result.replace_in(earlier);
                    }
                }
                if result.role != ResultRole::Update || !is_replaced {
                    self.parts.push(Part::Result(result));
                }
            }
        }
    }

    fn clear_before_next(&mut self) {
        if std::mem::take(&mut self.clears_next) {
            self.parts.clear();
        }
    }
}

/// Record of the parts, in which adjacent bytes of one stream are one part.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Parts>>);

impl Recorder {
    /// Records what a run delivers from now on.
    pub(crate) fn of(io: &mut ExecIo) -> Self {
        let recorder = Self::default();
        for (stream, sink) in [&mut io.stdout, &mut io.stderr].into_iter().enumerate() {
            let recorded = RecordedStream { stream, recorder: recorder.clone(), inner: sink.take() };
            *sink = Some(Box::new(recorded));
        }
        io.results = Some(Box::new(RecordedResults(recorder.clone(), io.results.take())));
        recorder
    }

    /// Returns the parts, after the run.
    pub(crate) fn take(&self) -> Vec<Part> {
        std::mem::take(&mut self.parts().parts)
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct RecordedStream {
    stream: usize,
    recorder: Recorder,
    inner: Option<Box<dyn OutputSink>>,
}

impl OutputSink for RecordedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.recorder.parts().write(self.stream, bytes);
        // A reader that is gone does not end the record.
        if self.inner.as_mut().is_some_and(|inner| inner.write(bytes).is_err()) {
            self.inner = None;
        }
        Ok(())
    }
}

struct RecordedResults(Recorder, Option<Box<dyn ResultSink>>);

impl ResultSink for RecordedResults {
    fn show(&mut self, shown: Shown) {
        if let Some(inner) = &mut self.1 {
            inner.show(shown.clone());
        }
        self.0.parts().show(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(role: ResultRole, id: &str, text: &str) -> Shown {
        let data = [("text/plain".to_owned(), text.into())].into();
        Shown::Result(MimeBundle { role, data, display_id: Some(id.to_owned()), ..MimeBundle::default() })
    }

    fn texts(parts: &Parts) -> Vec<String> {
        let text = |part: &Part| match part {
            Part::Stream(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Part::Result(result) => result.data["text/plain"].as_str().unwrap_or_default().to_owned(),
        };
        parts.parts.iter().map(text).collect()
    }

    #[test]
    fn parts_are_replaced_and_removed() {
        let mut parts = Parts::default();
        parts.write(0, b"a");
        parts.show(result(ResultRole::Display, "x", "1"));
        parts.show(result(ResultRole::Update, "x", "2"));
        // An earlier cell has shown it.
        parts.show(result(ResultRole::Update, "other", "3"));
        assert_eq!(texts(&parts), ["a", "2", "3"]);
        parts.show(Shown::Clear { waits: true });
        assert_eq!(texts(&parts), ["a", "2", "3"]);
        parts.write(1, b"b");
        assert_eq!(texts(&parts), ["b"]);
        parts.show(Shown::Clear { waits: false });
        assert!(parts.parts.is_empty());
    }

    #[test]
    fn copies_are_limited() {
        let mut parts = Parts::default();
        for _ in 0..100 {
            parts.show(result(ResultRole::Display, "x", "1"));
        }
        parts.show(result(ResultRole::Update, "x", &"y".repeat(1 << 20)));
        assert!(texts(&parts).iter().all(|text| text == "1"));
    }
}
