//! Limits on the output of a run that its caller gets.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use codebox_core::{
    CapturedOutput, ExecIo, Limit, OutputShape, OutputSink, Progress, ResultKind, RunReport, RunnerError, SpilledOutput,
};
use codebox_files::private_dir;

use crate::front_end::RunEnd;
use crate::output::{LimitedOutput, SpillFile};
use crate::runner::Runner;

/// Number of files with whole outputs that are kept.
const KEPT_FILES: usize = 200;

const NAMES: [&str; 2] = ["stdout", "stderr"];

/// The output streams of a run that pass the first part of the output, and keep all of it in files.
pub(crate) struct ShapedRun {
    shape: OutputShape,
    streams: [Arc<Mutex<ShapedStream>>; 2],
}

struct ShapedStream {
    output: LimitedOutput,
    sink: Option<Box<dyn OutputSink>>,
}

struct ShapedSink(Arc<Mutex<ShapedStream>>);

impl OutputSink for ShapedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = stream.output.write(bytes).shown;
        match &mut stream.sink {
            Some(sink) if !shown.is_empty() => sink.write(&shown),
            _ => Ok(()),
        }
    }
}

impl ShapedRun {
    /// Puts the limits between a run and its sinks. The files are created here, because the process may be confined when the
    /// output is cut.
    pub(crate) fn start(shape: OutputShape, dir: Option<&Path>, io: &mut ExecIo) -> Result<Self, RunnerError> {
        let run = rand::random::<u128>();
        if let Some(dir) = dir {
            private_dir(dir).and_then(|()| remove_old(dir)).map_err(|error| no_file(dir, &error))?;
        }
        let stream = |name: &str, sink: &mut Option<Box<dyn OutputSink>>| -> Result<_, RunnerError> {
            let file = match dir {
                Some(dir) => {
                    let path = dir.join(format!("{run:032x}.{name}"));
                    Some(SpillFile::create(path).map_err(|error| no_file(dir, &error))?)
                }
                None => None,
            };
            let output = LimitedOutput::new(Limit::Unlimited, Some(shape), file, true);
            let stream = Arc::new(Mutex::new(ShapedStream { output, sink: sink.take() }));
            *sink = Some(Box::new(ShapedSink(Arc::clone(&stream))));
            Ok(stream)
        };
        let streams = [stream(NAMES[0], &mut io.stdout)?, stream(NAMES[1], &mut io.stderr)?];
        Ok(Self { shape, streams })
    }

    /// Counts standard output that the caller got from the run that this one repeats.
    pub(crate) fn resume(&self, stdout: &[u8]) {
        let mut stream = self.streams[0].lock().unwrap_or_else(PoisonError::into_inner);
        let _shown = stream.output.write(stdout);
    }

    /// Ends the streams and gives the sinks back. The report, if the run has one, gets the output that the caller got. The streams of a run
    /// that another process has taken over do not end.
    pub(crate) fn finish(self, io: &mut ExecIo, ended: &mut Result<RunEnd, RunnerError>, progress: &dyn Progress) {
        let is_taken_over = matches!(ended, Ok(RunEnd::TakenOver(_)));
        let mut report = match ended {
            Ok(RunEnd::Report(report)) => Some(&mut **report),
            Ok(RunEnd::TakenOver(_)) | Err(_) => None,
        };
        let sinks = [&mut io.stdout, &mut io.stderr];
        for ((stream, name), sink) in self.streams.into_iter().zip(NAMES).zip(sinks) {
            let mut stream = match stream.try_lock() {
                Ok(locked) => locked,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // The reader of a run that was stopped does not read.
                    *sink = None;
                    report.as_deref_mut().into_iter().for_each(|report| shorten(captured(report, name), self.shape));
                    continue;
                }
            };
            if !is_taken_over {
                stream.end();
            }
            if report.is_none()
                && let Some(file) = stream.output.spilled(name)
            {
                progress.note(&format!("the output to {name} is in {}", file.path));
            }
            if let Some(report) = report.as_deref_mut() {
                let dropped = captured(report, name).dropped;
                *captured(report, name) =
                    CapturedOutput { head: stream.output.shown().to_vec(), tail: Vec::new(), dropped };
                report.spilled.extend(stream.output.spilled(name));
            }
            if let Some(error) = stream.output.spill_error() {
                progress.note(&format!("cannot write the file of the whole output to {name}: {error}"));
            }
            stream.output.remove_unused_file();
            *sink = stream.sink.take();
        }
    }
}

impl Runner {
    /// Keeps the whole outputs of a run whose caller is about to show them within these limits: each that is longer is written to a file, which the
    /// report names. A failure is noted.
    pub fn keep_whole_outputs(&self, report: &mut RunReport, shape: OutputShape) {
        for name in NAMES {
            let is_kept = report.spilled.iter().any(|file| file.stream == name);
            let bytes = captured(report, name).bytes();
            if is_kept || !shape.apply(&bytes).1 {
                continue;
            }
            match self.write_whole(name, &bytes) {
                Ok(Some(file)) => report.spilled.push(file),
                // There is no place for files.
                Ok(None) => {}
                Err(error) => self.parts.progress.note(error.message()),
            }
        }
    }

    fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<Option<SpilledOutput>, RunnerError> {
        let Some(dir) = self.parts.output_files.as_ref().map(|dir| dir.get()).transpose()? else { return Ok(None) };
        let path = dir.join(format!("{:032x}.{name}", rand::random::<u128>()));
        let written = private_dir(dir).and_then(|()| remove_old(dir)).and_then(|()| {
            let mut file = File::options().write(true).create_new(true).open(&path)?;
            io::Write::write_all(&mut file, bytes).inspect_err(|_| drop(fs::remove_file(&path)))
        });
        written.map_err(|error| no_file(dir, &error))?;
        let (stream, path) = (name.to_owned(), path.display().to_string());
        Ok(Some(SpilledOutput { stream, path, bytes: bytes.len() as u64 }))
    }
}

impl ShapedStream {
    /// Passes the end of the output.
    fn end(&mut self) {
        let rest = self.output.finish();
        if let Some(sink) = &mut self.sink
            && !rest.is_empty()
        {
            // The sink keeps its error.
            let _ = sink.write(&rest);
        }
    }
}

fn captured<'r>(report: &'r mut RunReport, name: &str) -> &'r mut CapturedOutput {
    if name == NAMES[0] { &mut report.stdout } else { &mut report.stderr }
}

fn shorten(output: &mut CapturedOutput, shape: OutputShape) {
    let head = shape.apply(&output.bytes()).0;
    *output = CapturedOutput { head, tail: Vec::new(), dropped: output.dropped };
}

fn no_file(dir: &Path, error: &io::Error) -> RunnerError {
    let line = format!("cannot create the file of the whole output in {}: {error}", dir.display());
    RunnerError::new(ResultKind::InternalError, line)
        .with_fix("make it writable, or run without --output-bytes and --output-lines")
}

/// Age of an empty file after which no run is about to lock it.
const STALE: Duration = Duration::from_secs(60);

/// Removes the files that are empty, and the oldest ones, unless a run writes them.
fn remove_old(dir: &Path) -> io::Result<()> {
    let mut files: Vec<_> = fs::read_dir(dir)?
        .flatten()
        .filter_map(|entry| {
            let facts = entry.metadata().ok()?;
            let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_new = modified.elapsed().map_or(true, |age| age < STALE);
            Some((facts.len() > 0 || is_new, modified, entry.path()))
        })
        .collect();
    files.sort_unstable();
    let surplus = files.len().saturating_sub(KEPT_FILES);
    let is_removed = |(index, (is_kept, ..)): &(usize, &(bool, SystemTime, PathBuf))| *index < surplus || !is_kept;
    for (_, (_, _, path)) in files.iter().enumerate().filter(is_removed) {
        // A run holds the lock of its files.
        if File::open(path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}
