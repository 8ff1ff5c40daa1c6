//! Logs and timings of codebox itself, off unless the user asks for them.
//!
//! The stages of the pipeline are spans of the `tracing` crate. They have names, sizes and outcomes as fields, and never
//! data of a guest, an environment variable or the text of a program.

use std::env::{self, VarError};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use codebox_core::{BackendError, ResultKind, RunnerError};
use codebox_service::{Admitted, Process, open_output_file};
use serde_json::Value;
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::messages::Messages;

mod spans;

use spans::{Collector, Span};

/// Start of every trace.
const TRACE_START: &str = "{\"traceEvents\":";

/// Environment variable with the same syntax as `--log`.
const LOG_VARIABLE: &str = "CODEBOX_LOG";

/// Options for logs and timings.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArgs {
    /// Log events of codebox at a level such as `debug`, to standard error or to FILE, which has a dot or a slash in its
    /// name; as JSON if it ends in `.json`. The variable CODEBOX_LOG has the same syntax
    #[arg(long, global = true, value_name = "FILTER[=FILE]", display_order = 902)]
    pub log: Option<LogSpec>,
    /// Print the time that each stage took
    #[arg(long, global = true, display_order = 903)]
    pub timings: bool,
    /// Write the stages to FILE, as JSON for chrome://tracing
    #[arg(long, global = true, value_name = "FILE", display_order = 904)]
    pub trace: Option<PathBuf>,
}

impl TraceArgs {
    /// Returns true if events are logged.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some() || env::var_os(LOG_VARIABLE).is_some_and(|text| !text.is_empty())
    }
}

/// Filter of a log, and the file that it is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogSpec {
    filter: String,
    /// File of the log; `None` for standard error.
    file: Option<PathBuf>,
}

impl FromStr for LogSpec {
    type Err = String;

    /// Splits at the last `=` if a file name follows it, which contains a dot or a slash. A level contains neither.
    fn from_str(text: &str) -> Result<Self, String> {
        let (filter, file) = match text.rsplit_once('=') {
            Some((filter, last)) if last.contains(['.', '/']) => (filter, Some(PathBuf::from(last))),
            _ => (text, None),
        };
        if let Some(why) = ambiguous_file(filter) {
            return Err(why);
        }
        if let Some(target) = unknown_target(filter) {
            return Err(format!("{target} is neither a level nor a part of codebox: use a level, such as debug"));
        }
        match EnvFilter::builder().parse(filter) {
            Ok(_) if !filter.is_empty() => Ok(Self { filter: filter.to_owned(), file }),
            Ok(_) => Err("the filter is empty: use a level, such as debug".to_owned()),
            Err(error) => Err(format!("{error}: use a level, such as debug, or TARGET=LEVEL")),
        }
    }
}

/// Returns the reason against a filter that ends in a level and a word, which may be meant as a file.
fn ambiguous_file(filter: &str) -> Option<String> {
    let (level, word) = filter.rsplit(',').next()?.trim().split_once('=')?;
    // An empty text is a level for the parser.
    if level.is_empty() || level.parse::<LevelFilter>().is_err() {
        return None;
    }
    Some(match word {
        "" => format!("the file after {level}= is missing: write {level}=./FILE, or {level} for standard error"),
        word => format!("cannot tell whether {word:?} is a file or a level: write {level}=./{word} for a file"),
    })
}

/// Returns the first target of a filter that is not one of codebox, whose log would be empty.
fn unknown_target(filter: &str) -> Option<&str> {
    // Values of fields may contain commas, and are left to the parser.
    if filter.contains('{') {
        return None;
    }
    filter.split(',').map(str::trim).find_map(|directive| {
        let target = directive.split(['=', '[']).next().unwrap_or_default();
        let level = target == directive && directive.parse::<LevelFilter>().is_ok();
        (!level && !target.is_empty() && !target.starts_with("codebox")).then_some(target)
    })
}

/// Process that collects spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TracedProcess {
    /// The process that the user started, which writes the trace.
    First,
    /// A standby process, which passes its events on to the first one.
    Standby,
}

/// Destination of a trace.
#[derive(Default)]
enum TraceTarget {
    #[default]
    None,
    /// A file, opened before the process confines itself.
    File(PathBuf, File),
    /// The first process.
    FirstProcess,
}

/// Parts of a trace that concern a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTrace {
    /// Files that codebox writes during the run.
    files: Vec<OutputFile>,
    /// Events of the standby process that ran the job again, as a JSON array; empty if there are none.
    pub rerun_events: Arc<Mutex<Vec<u8>>>,
}

/// A file that codebox writes.
#[derive(Debug, Clone)]
struct OutputFile {
    /// Path as typed.
    typed: PathBuf,
    /// Absolute path, without links.
    canonical: PathBuf,
}

impl OutputFile {
    fn at(path: &Path) -> io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let canonical = match (absolute.parent(), absolute.file_name()) {
            (Some(dir), Some(name)) => dir.canonicalize()?.join(name),
            _ => absolute,
        };
        Ok(Self { typed: path.to_owned(), canonical })
    }
}

impl RunTrace {
    /// Checks that a job cannot change the files that codebox writes.
    ///
    /// # Errors
    /// Returns an error that names the first file in a directory that the job can write to.
    pub(crate) fn check(&self, admitted: &Admitted) -> Result<(), RunnerError> {
        let found = self.files.iter().find_map(|file| Some((file, admitted.writable_dir_of(&file.canonical)?)));
        let Some((file, dir)) = found else { return Ok(()) };
        let path = file.typed.display();
        let line = format!("cannot write {path}: the program can create and replace files in {dir}");
        let fix = format!("pass a file outside of {dir} to --trace or --log");
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    }
}

/// Collected spans, to be shown at the end of the command.
#[derive(Default)]
pub(crate) struct Tracing {
    spans: Option<Arc<Mutex<Vec<Span>>>>,
    timings: bool,
    trace: TraceTarget,
    run: RunTrace,
}

impl Tracing {
    /// Starts what the options and the environment ask for. Does nothing without them.
    pub(crate) fn start(args: TraceArgs, process: TracedProcess) -> Result<Self, RunnerError> {
        let TraceArgs { log, timings, trace } = args;
        let log = match log {
            Some(log) => Some(log),
            None => log_spec_from_env()?,
        };
        if log.is_none() && !timings && trace.is_none() {
            return Ok(Self::default());
        }
        let log_file = log.as_ref().and_then(|log| log.file.clone());
        let log = log.map(log_layer).transpose()?;
        let paths = trace.iter().chain(&log_file).cloned().collect::<Vec<_>>();
        let spans = (timings || trace.is_some()).then(Arc::default);
        let trace = match (trace, process) {
            (None, _) => TraceTarget::None,
            (Some(_), TracedProcess::Standby) => TraceTarget::FirstProcess,
            (Some(path), TracedProcess::First) => {
                let file = open(&path)?;
                clear(&path, &file)?;
                TraceTarget::File(path, file)
            }
        };
        let file = |path: &PathBuf| {
            OutputFile::at(path).map_err(|error| BackendError::io(format!("write {}", path.display()), error))
        };
        let files = paths.iter().map(file).collect::<Result<_, _>>()?;
        let run = RunTrace { files, ..RunTrace::default() };
        let collector = spans.as_ref().map(|spans| Collector::new(Arc::clone(spans)).with_filter(filter_fn(is_own)));
        let subscriber = tracing_subscriber::registry().with(collector).with(log);
        // A second subscriber of one process would be an error of the program that calls this command line.
        let _ = subscriber.try_init();
        Ok(Self { spans, timings, trace, run })
    }

    /// Returns the parts of the trace that concern a run.
    pub(crate) fn run(&self) -> RunTrace {
        self.run.clone()
    }

    /// Prints and writes the collected spans. In a standby process, returns the events for the first process, as a JSON
    /// array.
    pub(crate) fn finish(self, messages: Messages) -> Vec<u8> {
        let Self { spans, timings, trace, run } = self;
        let Some(spans) = spans else { return Vec::new() };
        let spans = std::mem::take(&mut *spans.lock().unwrap_or_else(PoisonError::into_inner));
        if timings {
            spans::table(&spans).into_iter().for_each(|line| messages.note(line));
        }
        let events = spans::events(&spans);
        match trace {
            TraceTarget::None => Vec::new(),
            TraceTarget::FirstProcess => Value::Array(events).to_string().into_bytes(),
            TraceTarget::File(path, file) => {
                let rerun_events = run.rerun_events.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = write_trace(file, events, &rerun_events) {
                    messages.fail(&BackendError::io(format!("write {}", path.display()), error).into());
                }
                Vec::new()
            }
        }
    }
}

/// Empties the file of a trace. A file that is not a trace, such as the program itself, is left as it is.
fn clear(path: &Path, file: &File) -> Result<(), RunnerError> {
    let failed = |error| BackendError::io(format!("write {}", path.display()), error);
    let mut start = Vec::new();
    file.take(TRACE_START.len() as u64).read_to_end(&mut start).map_err(failed)?;
    if !start.is_empty() && start != TRACE_START.as_bytes() {
        let line = format!("cannot write the trace to {}: the file exists and is not a trace", path.display());
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("name another file, or remove it"));
    }
    Ok(file.set_len(0).map_err(failed)?)
}

/// Writes the trace, with the events of a standby process that ran the job again. The file is not read, because a guest
/// may have changed it.
fn write_trace(mut file: File, mut events: Vec<Value>, rerun_events: &[u8]) -> io::Result<()> {
    events.extend(serde_json::from_slice::<Vec<Value>>(rerun_events).unwrap_or_default());
    file.set_len(0)?;
    file.write_all(spans::document(events).as_bytes())
}

/// Returns true for spans and events of codebox itself. Those of libraries are not shown, because they may contain data
/// of a guest.
fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("codebox")
}

type BoxedLayer<S> = Box<dyn tracing_subscriber::Layer<S> + Send + Sync>;

fn log_layer<S>(LogSpec { filter, file }: LogSpec) -> Result<BoxedLayer<S>, RunnerError>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let filter = EnvFilter::builder().parse_lossy(filter).and(filter_fn(is_own));
    let spans = fmt::format::FmtSpan::CLOSE;
    Ok(match file {
        None => {
            let layer = fmt::layer().with_writer(io::stderr).with_ansi(false).with_span_events(spans);
            layer.with_filter(filter).boxed()
        }
        Some(path) => {
            let file = Mutex::new(open(&path)?);
            match path.extension().is_some_and(|extension| extension == "json") {
                true => fmt::layer().json().with_writer(file).with_span_events(spans).with_filter(filter).boxed(),
                false => {
                    fmt::layer().with_writer(file).with_ansi(false).with_span_events(spans).with_filter(filter).boxed()
                }
            }
        }
    })
}

fn log_spec_from_env() -> Result<Option<LogSpec>, RunnerError> {
    let refused = |text: &str, why: &str| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot use {LOG_VARIABLE}={text}: {why}"))
            .with_fix("set it to a level, such as debug, or unset it")
    };
    match env::var(LOG_VARIABLE) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(|why: String| refused(&text, &why)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(text)) => Err(refused(&text.to_string_lossy(), "it is not UTF-8")),
    }
}

/// Opens a file for reading and appending, because a standby process appends to the same log.
fn open(path: &Path) -> Result<File, RunnerError> {
    Ok(open_output_file(path, &Process)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_log_filter_and_file() {
        let spec =
            |filter: &str, file: Option<&str>| Ok(LogSpec { filter: filter.to_owned(), file: file.map(PathBuf::from) });
        assert_eq!("debug".parse(), spec("debug", None));
        assert_eq!("codebox_runner=debug".parse(), spec("codebox_runner=debug", None));
        assert_eq!("debug=a.log".parse(), spec("debug", Some("a.log")));
        assert_eq!("codebox_runner=debug=/tmp/a.json".parse(), spec("codebox_runner=debug", Some("/tmp/a.json")));
        assert_eq!("warn,codebox_wasm".parse(), spec("warn,codebox_wasm", None));
        assert_eq!("[run]=debug".parse(), spec("[run]=debug", None));
        for bad in ["", "=a.log", "codebox=loud", "codebox=loud=a=b", "bogus", "hyper=debug", "info,bogus[run]=debug"] {
            assert!(bad.parse::<LogSpec>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn file_of_a_log_needs_a_dot_or_a_slash() {
        for (spec, message) in [
            ("debug=logfile", "cannot tell whether \"logfile\" is a file or a level: write debug=./logfile for a file"),
            ("info,debug=off", "cannot tell whether \"off\" is a file or a level: write debug=./off for a file"),
            ("debug=", "the file after debug= is missing: write debug=./FILE, or debug for standard error"),
        ] {
            assert_eq!(spec.parse::<LogSpec>(), Err(message.to_owned()));
        }
    }

    /// A guest may have changed the file meanwhile.
    #[test]
    fn trace_has_nothing_that_was_in_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.json");
        let event = |name: &str| serde_json::json!({ "name": name });
        let rerun = Value::Array(vec![event("rerun")]).to_string();
        for (planted, rerun, expected) in
            [("[1]", rerun.as_str(), 2), ("{\"traceEvents\":[1,2,3]}", "", 1), ("\u{fffd}", "no JSON", 1)]
        {
            std::fs::write(&path, planted).expect("the file is written");
            let file = File::options().append(true).open(&path).expect("it exists");
            write_trace(file, vec![event("job")], rerun.as_bytes()).expect("the file is written");
            let text = std::fs::read_to_string(&path).expect("it exists");
            let trace: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(expected), "{text}");
            assert_eq!(trace["traceEvents"][0]["name"], "job", "{text}");
        }
    }
}
