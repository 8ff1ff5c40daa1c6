//! Spans that have ended, with their times and fields.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub name: &'static str,
    /// Number of the spans around it.
    pub depth: usize,
    /// Time from the UNIX epoch, which the spans of several processes share.
    pub start: Duration,
    pub duration: Duration,
    pub fields: Map<String, Value>,
}

/// Layer that collects spans in memory, without a thread of its own.
pub(super) struct Collector {
    began: Instant,
    /// Time of `began` from the UNIX epoch.
    epoch: Duration,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub(super) fn new(spans: Arc<Mutex<Vec<Span>>>) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), epoch, spans }
    }
}

/// State of a span that has not ended.
struct Open {
    start: Instant,
    fields: Fields,
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(Open { start: Instant::now(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open { start, fields }) = span.extensions_mut().remove::<Open>() else { return };
        let ended = Span {
            name: span.name(),
            depth: span.scope().skip(1).count(),
            start: self.epoch + start.saturating_duration_since(self.began),
            duration: start.elapsed(),
            fields: fields.0,
        };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
    }
}

/// Returns a line for each span, in the order of their starts, with its time and fields.
pub(super) fn table(spans: &[Span]) -> Vec<String> {
    let mut spans: Vec<&Span> = spans.iter().collect();
    spans.sort_by_key(|span| (span.start, span.depth));
    let line = |span: &Span| {
        let fields: String = span.fields.iter().map(|(name, value)| format!(" {name}={}", text(value))).collect();
        let name = format!("{}{}", "  ".repeat(span.depth), span.name);
        format!("{name:<24} {:>10.3} ms{fields}", span.duration.as_secs_f64() * 1e3)
    };
    spans.into_iter().map(line).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the spans as events of Chrome's trace event format.
pub(super) fn events(spans: &[Span]) -> Vec<Value> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let event = |span: &Span| {
        json!({
            "name": span.name,
            "ph": "X",
            "ts": micros(span.start),
            "dur": micros(span.duration),
            "pid": std::process::id(),
            "tid": 1,
            "args": span.fields,
        })
    };
    spans.iter().map(event).collect()
}

/// Returns events as a JSON document of Chrome's trace event format.
pub(super) fn document(events: Vec<Value>) -> String {
    json!({ "traceEvents": events }).to_string()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn nested_spans_are_collected_with_their_fields() {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Collector::new(Arc::clone(&spans)));
        tracing::subscriber::with_default(subscriber, || {
            let job = tracing::info_span!("job", id = tracing::field::Empty);
            job.in_scope(|| tracing::info_span!("exec", bytes = 3_u64).in_scope(|| ()));
            job.record("id", "0f");
        });
        let spans = spans.lock().expect("no panic before").clone();
        let lines = table(&spans);
        assert!(lines[0].starts_with("job ") && lines[0].ends_with(" ms id=0f"), "{lines:?}");
        assert!(lines[1].starts_with("  exec ") && lines[1].ends_with(" ms bytes=3"), "{lines:?}");
        let text = document(events(&spans));
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(2), "{text}");
        assert_eq!((&trace["traceEvents"][0]["name"], &trace["traceEvents"][1]["ph"]), (&"exec".into(), &"X".into()));
    }
}
