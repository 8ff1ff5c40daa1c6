//! Logs and timings of codebox itself, off unless the user asks for them.
//!
//! The stages of the pipeline are spans of the `tracing` crate. They have names, sizes and outcomes as fields, and never
//! data of a guest, an environment variable or the text of a program.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use clap::Args;
use codebox_core::{BackendError, ResultKind, RunnerError};
use codebox_service::{Process, open_output_file};
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

/// Collected spans, to be shown at the end of the command.
#[derive(Default)]
pub(crate) struct Tracing {
    spans: Option<Arc<Mutex<Vec<Span>>>>,
    timings: bool,
    /// File of the trace, opened before the process confines itself.
    trace: Option<(PathBuf, File)>,
}

impl Tracing {
    /// Starts what the options and the environment ask for. Does nothing without them.
    pub(crate) fn start(args: TraceArgs) -> Result<Self, RunnerError> {
        let TraceArgs { log, timings, trace } = args;
        let log = match log {
            Some(log) => Some(log),
            None => log_spec_from_env()?,
        };
        if log.is_none() && !timings && trace.is_none() {
            return Ok(Self::default());
        }
        let trace = trace.map(|path| open(&path).map(|file| (path, file))).transpose()?;
        if let Some((path, file)) = &trace {
            clear(path, file)?;
        }
        let spans = (timings || trace.is_some()).then(Arc::default);
        let collector = spans.as_ref().map(|spans| Collector::new(Arc::clone(spans)).with_filter(filter_fn(is_own)));
        let log = log.map(log_layer).transpose()?;
        let subscriber = tracing_subscriber::registry().with(collector).with(log);
        // A second subscriber of one process would be an error of the program that calls this command line.
        let _ = subscriber.try_init();
        Ok(Self { spans, timings, trace })
    }

    /// Prints and writes the collected spans.
    pub(crate) fn finish(self, messages: Messages) {
        let Some(spans) = self.spans else { return };
        let spans = std::mem::take(&mut *spans.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        if self.timings {
            spans::table(&spans).into_iter().for_each(|line| messages.note(line));
        }
        if let Some((path, file)) = self.trace
            && let Err(error) = write_trace(file, &spans)
        {
            messages.note(format!("cannot write {}: {error}", path.display()));
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

/// Writes the trace. The file may have the spans of a second process already, which ran the job again and has ended.
fn write_trace(mut file: File, spans: &[Span]) -> io::Result<()> {
    let mut earlier = String::new();
    file.rewind()?;
    file.read_to_string(&mut earlier)?;
    file.set_len(0)?;
    file.write_all(spans::chrome(spans, &earlier).as_bytes())
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
    let Some(text) = std::env::var(LOG_VARIABLE).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|why: String| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot use {LOG_VARIABLE}={text}: {why}"))
            .with_fix("set it to a level, such as debug, or unset it")
    })
}

/// Opens a file for reading and appending, because a run in a second process writes to the same file.
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
}
