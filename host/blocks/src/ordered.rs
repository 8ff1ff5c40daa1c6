//! Outputs of a cell in the order in which they are written.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{ExecIo, MimeBundle, OutputSink, ResultSink};

/// Part of the output of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Bytes of stream 0 or 1: standard output or standard error.
    Stream(usize, Vec<u8>),
    /// Object that the cell has shown, or its value.
    Result(MimeBundle),
}

/// Record of the parts, in which adjacent bytes of one stream are one part.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Part>>>);

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
        std::mem::take(&mut self.parts())
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
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
        let mut parts = self.recorder.parts();
        match parts.last_mut() {
            Some(Part::Stream(stream, text)) if *stream == self.stream => text.extend(bytes),
            _ => parts.push(Part::Stream(self.stream, bytes.to_vec())),
        }
        drop(parts);
        // A reader that is gone does not end the record.
        if self.inner.as_mut().is_some_and(|inner| inner.write(bytes).is_err()) {
            self.inner = None;
        }
        Ok(())
    }
}

struct RecordedResults(Recorder, Option<Box<dyn ResultSink>>);

impl ResultSink for RecordedResults {
    fn show(&mut self, result: MimeBundle) {
        if let Some(inner) = &mut self.1 {
            inner.show(result.clone());
        }
        self.0.parts().push(Part::Result(result));
    }
}
