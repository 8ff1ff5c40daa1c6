//! Streams of a run that another run can replace.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use codebox_core::{CancelToken, ExecIo, InputModes, OutputSink, RunTools};

use crate::delayed_sink::{DelayedSink, SharedOutput, write_to};
use crate::recording::InputRecording;
use crate::replay_filter::{DivergenceFlag, ReplayFilter};

/// Record of a replaceable run: the input that it has read, and its standard error, which is held back.
pub struct ReplaceableRun {
    stdin: Option<InputRecording>,
    stdout: Option<SharedSink>,
    stderr: Option<DelayedSink>,
    input_modes: Option<Arc<dyn InputModes>>,
    cancel: CancelToken,
    tools: Option<RunTools>,
    has_own_thread: bool,
}

/// Reason that a run cannot be replaced: it has read more input than is remembered.
pub const INPUT_NOT_REMEMBERED: &str = "it has read more input than can be replayed";

/// Reason that a run cannot be replaced: its held standard error cannot be discarded because a stalled reader blocks
/// it.
pub(crate) const OUTPUT_STALLED: &str = "its output is no longer read";

impl ReplaceableRun {
    /// Replaces the streams in `io` by those of a replaceable run, and returns the record of the run.
    #[must_use]
    pub fn of(io: &mut ExecIo) -> Self {
        let ExecIo { stdin, stdout, stderr, results: _, input_modes, resizes: _, cancel, tools, has_own_thread } = io;
        let read = stdin.take().map(|inner| {
            let (reader, recording) = InputRecording::new(inner);
            *stdin = Some(reader);
            recording
        });
        let output = stdout.take().map(|inner| Arc::new(Mutex::new(inner)));
        let held = stderr.take().map(|inner| {
            let delayed_sink = DelayedSink::new(inner, output.clone());
            *stderr = Some(Box::new(delayed_sink.clone()));
            delayed_sink
        });
        let shared_sink = output.map(|inner| {
            let shared_sink = SharedSink { inner, held: held.clone() };
            *stdout = Some(Box::new(shared_sink.clone()));
            shared_sink
        });
        Self {
            stdin: read,
            stdout: shared_sink,
            stderr: held,
            input_modes: input_modes.clone(),
            cancel: cancel.clone(),
            tools: tools.clone(),
            has_own_thread: *has_own_thread,
        }
    }

    /// Returns the standard input that was read so far; `None` if it was too much to remember.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        self.stdin.as_ref().map_or_else(|| Some(Vec::new()), InputRecording::read)
    }

    /// Holds standard error back until the run is either replaced or finished.
    pub fn freeze(&self) {
        self.stderr.iter().for_each(DelayedSink::freeze);
    }

    /// Discards the held standard error, because a run in another process replaces this one.
    pub fn discard(&self) {
        self.stderr.iter().for_each(|held| drop(held.discard()));
    }

    /// Returns the streams of a run in this process that replaces this one and continues after `printed`, and the flag
    /// that is set if that run prints something else.
    ///
    /// # Errors
    /// Returns the reason if the run cannot be replaced.
    pub fn replay(&self, printed: Vec<u8>) -> Result<(ExecIo, DivergenceFlag), &'static str> {
        let stdin = match &self.stdin {
            Some(recording) => Some(recording.replay().ok_or(INPUT_NOT_REMEMBERED)?),
            None => None,
        };
        let stderr = match &self.stderr {
            Some(held) => Some(held.discard().ok_or(OUTPUT_STALLED)?),
            None => None,
        };
        let Self { input_modes, cancel, tools, has_own_thread, .. } = self;
        let (input_modes, cancel, tools) = (input_modes.clone(), cancel.clone(), tools.clone());
        // Runs that can be replaced are programs, and not cells.
        let mut io = ExecIo {
            stdin,
            stdout: None,
            stderr,
            results: None,
            input_modes,
            resizes: None,
            cancel,
            tools,
            has_own_thread: *has_own_thread,
        };
        let mut divergence = DivergenceFlag::default();
        if let Some(shared_sink) = self.stdout.clone() {
            let filter = ReplayFilter::new(Box::new(shared_sink), printed);
            divergence = filter.divergence();
            io.stdout = Some(Box::new(filter));
        }
        Ok((io, divergence))
    }

    /// Passes on the held standard error of a run that is not replaced, and then calls `done`.
    ///
    /// This takes as long as the reader takes. If the output cannot be passed on, `done` is dropped.
    pub fn finish(self, done: impl FnOnce() + Send + 'static) {
        match self.stderr {
            Some(held) => held.finish(done),
            None => done(),
        }
    }
}

/// Turns `io` into the streams of a run that replaces another, which had printed `stdout` and read `stdin`. Returns the
/// flag that is set if the second run prints something else.
pub fn resume_streams(io: &mut ExecIo, stdout: Vec<u8>, stdin: Vec<u8>) -> DivergenceFlag {
    let mut divergence = DivergenceFlag::default();
    if let Some(inner) = io.stdout.take() {
        let sink = ReplayFilter::new(inner, stdout);
        divergence = sink.divergence();
        io.stdout = Some(Box::new(sink));
    }
    if let Some(inner) = io.stdin.take() {
        io.stdin = Some(Box::new(io::Cursor::new(stdin).chain(inner)));
    }
    divergence
}

/// A sink for standard output that several runs use in succession.
#[derive(Clone)]
struct SharedSink {
    inner: SharedOutput,
    /// Standard error of the first run, behind which output waits.
    held: Option<DelayedSink>,
}

impl OutputSink for SharedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.held.as_ref().is_some_and(|held| held.hold_output(bytes)) {
            return Ok(());
        }
        write_to(&self.inner, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delayed_sink::tests::RecordingSink;

    #[test]
    fn replacement_continues_after_first_run() {
        let (out, err) = (RecordingSink::default(), RecordingSink::default());
        let mut io = ExecIo {
            stdin: Some(Box::new(io::Cursor::new(b"one\ntwo\n".to_vec()))),
            stdout: Some(Box::new(out.clone())),
            stderr: Some(Box::new(err.clone())),
            ..ExecIo::none()
        };
        let replaceable = ReplaceableRun::of(&mut io);
        let run = |io: &mut ExecIo, read: usize, out_text: &str, err_text: &str| {
            let mut line = vec![0; read];
            io.stdin.take().expect("the stream exists").read_exact(&mut line).expect("the input has enough bytes");
            io.stdout.take().expect("the stream exists").write(out_text.as_bytes()).expect("the sink accepts the data");
            io.stderr.take().expect("the stream exists").write(err_text.as_bytes()).expect("the sink accepts the data");
            line
        };
        assert_eq!(run(&mut io, 4, "a", "no threads"), b"one\n");
        replaceable.freeze();
        let (mut second, divergence) = replaceable.replay(b"a".to_vec()).expect("the run is replaceable");
        assert_eq!(run(&mut second, 8, "ab", "fine"), b"one\ntwo\n");
        assert_eq!((out.text(), err.text()), ("ab".to_owned(), "fine".to_owned()));
        assert!(!divergence.is_set());
    }

    #[test]
    fn streams_keep_their_order() {
        let both = RecordingSink::default();
        let sink = || Some(Box::new(both.clone()) as Box<dyn OutputSink>);
        let mut io = ExecIo { stdout: sink(), stderr: sink(), ..ExecIo::none() };
        let replaceable = ReplaceableRun::of(&mut io);
        let (mut stdout, mut stderr) = (io.stdout.take().expect("a sink"), io.stderr.take().expect("a sink"));
        for number in ["1", "2", "3"] {
            stderr.write(format!("e{number} ").as_bytes()).expect("the sink accepts the data");
            stdout.write(format!("o{number} ").as_bytes()).expect("the sink accepts the data");
        }
        stderr.write(b"end").expect("the sink accepts the data");
        let (sender, receiver) = std::sync::mpsc::channel();
        replaceable.finish(move || sender.send(()).expect("the receiver exists"));
        receiver.recv().expect("the output is passed on");
        assert_eq!(both.text(), "e1 o1 e2 o2 e3 o3 end");
    }

    #[test]
    fn output_behind_discarded_messages_is_passed_on() {
        let (out, err) = (RecordingSink::default(), RecordingSink::default());
        let mut io =
            ExecIo { stdout: Some(Box::new(out.clone())), stderr: Some(Box::new(err.clone())), ..ExecIo::none() };
        let replaceable = ReplaceableRun::of(&mut io);
        let (mut stdout, mut stderr) = (io.stdout.take().expect("a sink"), io.stderr.take().expect("a sink"));
        stderr.write(b"no threads").expect("the sink accepts the data");
        replaceable.freeze();
        stdout.write(b"bye").expect("the sink accepts the data");
        let (mut second, _) = replaceable.replay(b"bye".to_vec()).expect("the run is replaceable");
        second.stdout.take().expect("a sink").write(b"bye, all").expect("the sink accepts the data");
        assert_eq!((out.text(), err.text()), ("bye, all".to_owned(), String::new()));
        // More than may wait is passed on at once.
        let mut io =
            ExecIo { stdout: Some(Box::new(out.clone())), stderr: Some(Box::new(err.clone())), ..ExecIo::none() };
        let _other = ReplaceableRun::of(&mut io);
        io.stderr.take().expect("a sink").write(b"x").expect("the sink accepts the data");
        io.stdout.take().expect("a sink").write(&[b'y'; 1 << 20]).expect("the sink accepts the data");
        assert_eq!((out.text().len(), err.text().len()), (8 + (1 << 20), 1));
    }

    #[test]
    fn different_output_of_replacement_is_flagged() {
        let out = RecordingSink::default();
        let mut io = ExecIo { stdout: Some(Box::new(out.clone())), ..ExecIo::none() };
        let replaceable = ReplaceableRun::of(&mut io);
        io.stdout.take().expect("a sink").write(b"one\n").expect("write succeeds");
        let (mut second, divergence) = replaceable.replay(b"one\n".to_vec()).expect("the run is replaceable");
        second.stdout.take().expect("a sink").write(b"two\n").expect("write succeeds");
        assert!(divergence.is_set());
    }

    #[test]
    fn input_beyond_limit_prevents_replacement() {
        let mut io = ExecIo { stdin: Some(Box::new(io::repeat(1))), ..ExecIo::none() };
        let replaceable = ReplaceableRun::of(&mut io);
        io.stdin.take().expect("the stream exists").read_exact(&mut vec![0; 2 << 20]).expect("the input is endless");
        assert_eq!(replaceable.replay(Vec::new()).err(), Some(INPUT_NOT_REMEMBERED));
    }
}
