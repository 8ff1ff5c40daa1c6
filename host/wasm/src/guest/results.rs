//! Rich results that the guest sends, within a maximum number and size.

use std::collections::BTreeMap;

use codebox_core::{MimeBundle, ResultRole};
use serde::Deserialize;
use serde_json::Value;

/// First byte of a request that has a rich result.
pub(crate) const REQUEST_TAG: u8 = 3;

/// Maximum number of results of one job.
const MAX_RESULTS: usize = 256;

/// Maximum size in bytes of all results of one job.
pub(crate) const MAX_SIZE: usize = 16 << 20;

/// Maximum size in bytes of all forms of one job that are JSON documents, and of all metadata. In memory, a document takes up to
/// sixteen times the size of its text.
const MAX_JSON_SIZE: usize = 1 << 20;

/// Maximum number of forms of one result.
const MAX_FORMS: usize = 32;

/// The rich results of one job.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub bundles: Vec<MimeBundle>,
    /// Number of results above the maximum number or size.
    pub dropped: u64,
    size: usize,
    json_size: usize,
}

/// A result as the guest sends it.
#[derive(Deserialize)]
struct SentResult {
    role: Role,
    /// Forms that are texts, and base64 of binary forms.
    data: BTreeMap<String, String>,
    /// Forms that are JSON documents.
    json: BTreeMap<String, String>,
    /// A JSON document.
    metadata: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Display,
    Value,
}

impl Results {
    /// Stores a result, or counts it as dropped. `None` if the request is malformed.
    pub(crate) fn record(&mut self, request: &[u8]) -> Option<()> {
        let sent: SentResult = serde_json::from_slice(request.get(1..)?).ok()?;
        let SentResult { role, data, json, metadata } = sent;
        let json_size = json.values().map(String::len).sum::<usize>() + metadata.len();
        let fits = self.bundles.len() < MAX_RESULTS
            && data.len() + json.len() <= MAX_FORMS
            && self.size + request.len() <= MAX_SIZE
            && self.json_size + json_size <= MAX_JSON_SIZE;
        if !fits {
            self.dropped += 1;
            return Some(());
        }
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let documents = json.into_iter().map(|(kind, text)| Some((kind, parse(&text)?)));
        let documents = documents.collect::<Option<Vec<_>>>()?;
        let texts = data.into_iter().map(|(kind, text)| (kind, Value::String(text)));
        let Value::Object(metadata) = parse(&metadata)? else { return None };
        self.size += request.len();
        self.json_size += json_size;
        self.bundles.push(MimeBundle {
            data: texts.chain(documents).collect(),
            metadata: metadata.into_iter().collect(),
            role: match role {
                Role::Display => ResultRole::Display,
                Role::Value => ResultRole::Value,
            },
        });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(data: &Value) -> Vec<u8> {
        [&[REQUEST_TAG][..], data.to_string().as_bytes()].concat()
    }

    fn text(text: &str) -> Value {
        serde_json::json!({"role": "display", "data": {"text/plain": text}, "json": {}, "metadata": "{}"})
    }

    #[test]
    fn results_have_texts_and_documents() {
        let mut results = Results::default();
        let sent = serde_json::json!({
            "role": "value", "data": {"text/plain": "1"}, "json": {"application/json": "{\"a\": [1]}"},
            "metadata": "{\"image/png\": {\"width\": 2}}",
        });
        results.record(&request(&sent)).expect("a result");
        let [bundle] = &results.bundles[..] else { panic!("{results:?}") };
        assert_eq!((bundle.role, &bundle.data["text/plain"]), (ResultRole::Value, &Value::from("1")));
        assert_eq!(bundle.data["application/json"]["a"][0], 1);
        assert_eq!(bundle.metadata["image/png"]["width"], 2);
    }

    #[test]
    fn results_above_the_maximum_are_counted() {
        let mut results = Results::default();
        for _ in 0..MAX_RESULTS + 3 {
            results.record(&request(&text("x"))).expect("a result");
        }
        assert_eq!((results.bundles.len(), results.dropped), (MAX_RESULTS, 3));

        let mut results = Results::default();
        for _ in 0..20 {
            results.record(&request(&text(&"x".repeat(1 << 20)))).expect("a result");
        }
        assert_eq!((results.bundles.len(), results.dropped), (15, 5));

        let mut results = Results::default();
        let document = format!("[{}0]", "0,".repeat(MAX_JSON_SIZE / 2 - 100));
        let sent = serde_json::json!({"role": "display", "data": {}, "json": {"application/json": document}, "metadata": "{}"});
        for _ in 0..2 {
            results.record(&request(&sent)).expect("a result");
        }
        assert_eq!((results.bundles.len(), results.dropped), (1, 1));
    }

    #[test]
    fn malformed_results_are_refused() {
        let mut results = Results::default();
        let with = |name: &str, value: Value| {
            let mut sent = text("x");
            sent[name] = value;
            request(&sent)
        };
        let deep = "[".repeat(100_000);
        for bad in [
            vec![REQUEST_TAG],
            b"\x03[]".to_vec(),
            with("role", "other".into()),
            with("data", serde_json::json!({"a": 1})),
            with("json", serde_json::json!({"a": "{"})),
            with("json", serde_json::json!({"a": deep})),
            with("metadata", "[]".into()),
        ] {
            assert_eq!(results.record(&bad), None, "{}", String::from_utf8_lossy(&bad[..bad.len().min(100)]));
        }
        assert!(results.bundles.is_empty());
    }
}
