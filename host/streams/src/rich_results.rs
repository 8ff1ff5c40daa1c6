//! Rich results that the guest sends, within a maximum number and size.

use std::borrow::Cow;
use std::fmt;

use codebox_core::{MimeBundle, ResultRole, Shown};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

/// First byte of a request that has a rich result.
pub const RESULT_TAG: u8 = 3;

/// Maximum number of requests of one job that are served: results, new forms of earlier ones, and removals.
pub const MAX_SHOWN: usize = 4096;

/// Maximum size of these requests together, in bytes.
pub const MAX_SHOWN_SIZE: usize = 64 << 20;

/// Maximum number of results of one job.
const MAX_RESULTS: usize = 256;

/// Maximum size in bytes of the forms of all results of one job.
const MAX_SIZE: usize = 16 << 20;

/// Maximum size in bytes of all forms of one job that are JSON documents, and of all metadata. In memory, a document takes up to a
/// hundred times the size of its text.
const MAX_JSON_SIZE: usize = 1 << 20;

/// Maximum size in bytes of all documents that are parsed, those of removed and replaced results included.
pub const MAX_PARSED: usize = 4 << 20;

/// Maximum length of a request in bytes: forms of the maximum size, and their names.
const MAX_REQUEST_LEN: usize = MAX_SIZE + (1 << 20);

/// Maximum number of forms of one result.
const MAX_FORMS: usize = 32;

/// Maximum length of the name of a form in bytes.
const MAX_NAME_LEN: usize = 256;

/// The rich results of one job.
#[derive(Debug, Default)]
pub struct RichResults {
    /// The results, in the order in which they were sent, each with its last forms. Those that the program has removed are left out.
    pub bundles: Vec<MimeBundle>,
    /// Number of results that were left out, entirely or in some of their forms.
    pub dropped: u64,
    /// Size of the documents and the metadata of each of the results.
    json_sizes: Vec<usize>,
    /// Size of all documents so far.
    parsed: usize,
    /// Number and size of the requests.
    sent: (usize, usize),
    /// True if the results so far are removed when another one follows.
    clears_next: bool,
}

/// A result as the guest sends it.
#[derive(Deserialize)]
struct SentResult {
    role: Role,
    #[serde(default)]
    display_id: Option<String>,
    /// Forms that are texts, and base64 of binary forms.
    data: Forms,
    /// Forms that are JSON documents.
    json: Forms,
    /// A JSON document.
    metadata: String,
    /// True if the guest has left forms out.
    #[serde(default)]
    incomplete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Display,
    Value,
    /// New forms of earlier results with the same identifier.
    Update,
    /// Removal of the results so far.
    Clear,
    /// The same when another one follows.
    ClearBeforeNext,
}

/// Forms by MIME type, in the order in which they are sent.
struct Forms(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Forms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormsVisitor;

        impl<'de> Visitor<'de> for FormsVisitor {
            type Value = Forms;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_FORMS} forms")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Forms, A::Error> {
                let mut forms = Vec::new();
                while let Some(form) = map.next_entry()? {
                    if forms.len() == MAX_FORMS {
                        return Err(A::Error::invalid_length(MAX_FORMS + 1, &self));
                    }
                    forms.push(form);
                }
                Ok(Forms(forms))
            }
        }

        deserializer.deserialize_map(FormsVisitor)
    }
}

impl RichResults {
    /// Stores a result without the forms above the maximum size, and counts it if it is not complete. Returns `None` if the request is
    /// malformed.
    #[must_use]
    pub fn record(&mut self, request: &[u8]) -> Option<Recorded<'_>> {
        let (count, size) = &mut self.sent;
        (*count, *size) = (*count + 1, size.saturating_add(request.len()));
        if *count > MAX_SHOWN || *size > MAX_SHOWN_SIZE || request.len() > MAX_REQUEST_LEN {
            self.dropped += 1;
            return Some(Recorded::Nothing);
        }
        let sent: SentResult = serde_json::from_slice(request.get(1..)?).ok()?;
        let role = match sent.role {
            Role::Display => ResultRole::Display,
            Role::Value => ResultRole::Value,
            Role::Update => ResultRole::Update,
            Role::Clear => {
                self.clear();
                return Some(Recorded::Clear { waits: false });
            }
            Role::ClearBeforeNext => {
                self.clears_next = true;
                return Some(Recorded::Clear { waits: true });
            }
        };
        if sent.display_id.as_ref().map_or(role == ResultRole::Update, |id| id.len() > MimeBundle::MAX_ID_LEN) {
            return None;
        }
        if std::mem::take(&mut self.clears_next) {
            self.clear();
        }
        self.add(role, sent)
    }

    fn clear(&mut self) {
        self.bundles.clear();
        self.json_sizes.clear();
    }

    fn add(&mut self, role: ResultRole, sent: SentResult) -> Option<Recorded<'_>> {
        let SentResult { display_id, data, json, metadata, incomplete, .. } = sent;
        let mut bundle = MimeBundle { role, display_id, ..MimeBundle::default() };
        let is_same = |earlier: &&MimeBundle| bundle.has_id_of(earlier);
        let same = self.bundles.iter().filter(is_same).count();
        let is_pushed = role != ResultRole::Update || same == 0;
        // Other results need a part of the number.
        let is_late = role == ResultRole::Update && self.sent.0 > MAX_SHOWN - MAX_RESULTS;
        if is_late || is_pushed && self.bundles.len() == MAX_RESULTS {
            self.dropped += 1;
            return Some(Recorded::Nothing);
        }
        let others = self.bundles.iter().filter(|earlier| !is_same(earlier));
        let size = others.flat_map(|other| other.data.values()).filter_map(Value::as_str).map(str::len).sum();
        let others = self.bundles.iter().zip(&self.json_sizes).filter(|(earlier, _)| !is_same(earlier));
        let json_size: usize = others.map(|(_, size)| size).sum();
        let copies = same + usize::from(is_pushed);
        let mut space = Space { copies, size, json_size, parsed: self.parsed };
        let mut is_complete = !incomplete;
        // The shortest forms come first: a text is kept in place of a large image.
        let documents = json.0.into_iter().map(|(kind, text)| (kind, text, true));
        let mut forms: Vec<_> = data.0.into_iter().map(|(kind, text)| (kind, text, false)).chain(documents).collect();
        forms.sort_by_key(|(_, text, _)| text.len());
        for (kind, text, is_document) in forms {
            // Notebooks have documents under the names of JSON alone.
            let form = match is_mime_type(&kind) && (!is_document || is_json(&kind)) {
                true => space.form(text, is_document),
                false => None,
            };
            match form {
                Some(form) => drop(bundle.data.insert(kind, form)),
                None => is_complete = false,
            }
        }
        match space.form(metadata, true) {
            Some(Value::Object(metadata)) => bundle.metadata = metadata.into_iter().collect(),
            Some(_) => return None,
            None => is_complete = false,
        }
        self.parsed = space.parsed;
        let own_json_size = (space.json_size - json_size) / copies;
        let is_empty = bundle.data.is_empty();
        self.dropped += u64::from(is_empty || !is_complete);
        // The forms that are shown are kept in place of a part of new ones.
        if is_empty || !is_complete && !is_pushed {
            return Some(Recorded::Nothing);
        }
        for (earlier, size) in self.bundles.iter_mut().zip(&mut self.json_sizes) {
            if bundle.replace_in(earlier) {
                *size = own_json_size;
            }
        }
        if !is_pushed {
            return Some(Recorded::Result(Cow::Owned(bundle)));
        }
        self.bundles.push(bundle);
        self.json_sizes.push(own_json_size);
        self.bundles.last().map(|bundle| Recorded::Result(Cow::Borrowed(bundle)))
    }
}

/// Effect of a request.
#[derive(Debug, PartialEq)]
pub enum Recorded<'r> {
    /// The result is above the limits.
    Nothing,
    /// Stored result.
    Result(Cow<'r, MimeBundle>),
    /// Removal of the results so far, or of those before the next one.
    Clear {
        /// True if they are removed when another one follows.
        waits: bool,
    },
}

impl Recorded<'_> {
    /// Returns what a receiver of results is shown.
    #[must_use]
    pub fn into_shown(self) -> Option<Shown> {
        match self {
            Self::Nothing => None,
            Self::Result(bundle) => Some(Shown::Result(bundle.into_owned())),
            Self::Clear { waits } => Some(Shown::Clear { waits }),
        }
    }
}

/// Space that the forms of a result may take.
struct Space {
    /// Number of results that get the forms.
    copies: usize,
    /// Size of all texts.
    size: usize,
    /// Size of all documents that are stored.
    json_size: usize,
    /// Size of all documents so far.
    parsed: usize,
}

impl Space {
    /// Returns a form; `None` if it is above the maximum size, or a document that cannot be parsed.
    fn form(&mut self, text: String, is_document: bool) -> Option<Value> {
        let added = text.len().saturating_mul(self.copies);
        let (total, limit) = match is_document {
            true => (&mut self.json_size, MAX_JSON_SIZE),
            false => (&mut self.size, MAX_SIZE),
        };
        if total.saturating_add(added) > limit || is_document && self.parsed + text.len() > MAX_PARSED {
            return None;
        }
        *total += added;
        if is_document {
            self.parsed += text.len();
        }
        if is_document { serde_json::from_str(&text).ok() } else { Some(Value::String(text)) }
    }
}

/// Returns true for the name of a MIME type: two words, and perhaps parameters.
fn is_mime_type(kind: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let is_parameter = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let (name, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let Some((group, own)) = name.split_once('/') else { return false };
    kind.len() <= MAX_NAME_LEN && is_word(group) && is_word(own) && parameters.bytes().all(is_parameter)
}

/// Returns true for the MIME types of JSON documents.
fn is_json(kind: &str) -> bool {
    let name = kind.split(';').next().unwrap_or(kind);
    name == "application/json" || name.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(data: &Value) -> Vec<u8> {
        [&[RESULT_TAG][..], data.to_string().as_bytes()].concat()
    }

    fn text(text: &str) -> Value {
        serde_json::json!({"role": "display", "data": {"text/plain": text}, "json": {}, "metadata": "{}"})
    }

    #[test]
    fn results_have_texts_and_documents() {
        let mut results = RichResults::default();
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
        let mut results = RichResults::default();
        for _ in 0..MAX_RESULTS + 3 {
            results.record(&request(&text("x"))).expect("a result");
        }
        assert_eq!((results.bundles.len(), results.dropped), (MAX_RESULTS, 3));

        let mut results = RichResults::default();
        for _ in 0..20 {
            results.record(&request(&text(&"x".repeat(1 << 20)))).expect("a result");
        }
        assert_eq!((results.bundles.len(), results.dropped), (16, 4));

        let mut results = RichResults::default();
        for _ in 0..MAX_SHOWN + 2 {
            results.record(&request(&clear("clear"))).expect("a removal");
        }
        assert_eq!((results.bundles.len(), results.dropped), (0, 2));
        let mut results = RichResults::default();
        for _ in 0..10 {
            results.record(&request(&text(&"x".repeat(8 << 20)))).expect("a result");
            results.record(&request(&clear("clear"))).expect("a removal");
        }
        assert_eq!(results.dropped, 3 + 3);
    }

    fn clear(role: &str) -> Value {
        serde_json::json!({"role": role, "data": {}, "json": {}, "metadata": "{}"})
    }

    fn with_id(role: &str, id: &str, form: &str) -> Vec<u8> {
        let mut sent = text(form);
        (sent["role"], sent["display_id"]) = (role.into(), id.into());
        request(&sent)
    }

    fn texts(results: &RichResults) -> Vec<&str> {
        results.bundles.iter().filter_map(|bundle| bundle.data["text/plain"].as_str()).collect()
    }

    #[test]
    fn results_are_replaced() {
        let mut results = RichResults::default();
        for (role, id, form) in
            [("display", "a", "1"), ("display", "b", "2"), ("update", "a", "3"), ("display", "a", "4")]
        {
            results.record(&with_id(role, id, form)).expect("a result");
        }
        assert_eq!(texts(&results), ["4", "2", "4"]);
        let recorded = results.record(&with_id("update", "a", "5")).and_then(Recorded::into_shown).expect("a result");
        let Shown::Result(bundle) = recorded else { panic!("{recorded:?}") };
        assert_eq!((bundle.role, bundle.display_id.as_deref()), (ResultRole::Update, Some("a")));
        // An earlier cell has shown it.
        results.record(&with_id("update", "other", "6")).expect("a result");
        assert_eq!(texts(&results), ["5", "2", "5", "6"]);
        assert_eq!(results.bundles[3].role, ResultRole::Update);
        // Each of the results with the identifier takes the space.
        results.record(&with_id("update", "a", &"x".repeat(9 << 20))).expect("a result");
        assert_eq!((texts(&results)[0], results.dropped), ("5", 1));
        for number in 0..1000 {
            results.record(&with_id("update", "a", &number.to_string())).expect("a result");
        }
        assert_eq!((texts(&results), results.dropped), (vec!["999", "2", "999", "6"], 1));
        // Updates do not use up the number.
        for number in 0..MAX_SHOWN - MAX_RESULTS - 1000 {
            results.record(&with_id("update", "a", &number.to_string())).expect("a result");
        }
        results.record(&request(&text("end"))).expect("a result");
        assert_eq!(texts(&results).last(), Some(&"end"));
    }

    #[test]
    fn documents_are_replaced() {
        let sent = |role: &str, size: usize| {
            let document = format!("[{}0]", "0,".repeat(size / 2));
            let data = serde_json::json!({"text/plain": size.to_string()});
            request(&serde_json::json!({
                "role": role, "display_id": "a", "data": data, "json": {"application/json": document}, "metadata": "{}",
            }))
        };
        let mut results = RichResults::default();
        results.record(&sent("display", 30 << 10)).expect("a result");
        for _ in 0..60 {
            results.record(&sent("update", 30 << 10)).expect("a result");
        }
        assert_eq!((results.bundles[0].data.len(), results.dropped), (2, 0));
        // An update that is too large leaves what is shown.
        results.record(&sent("update", 2 << 20)).expect("a result");
        assert_eq!((results.bundles[0].data.len(), results.dropped), (2, 1));
        assert_eq!(results.bundles[0].data["text/plain"], (30 << 10).to_string());
        for _ in 0..200 {
            results.record(&sent("update", 30 << 10)).expect("a result");
        }
        assert!(results.dropped > 1 && results.parsed <= MAX_PARSED, "{} {}", results.dropped, results.parsed);
        assert_eq!(results.bundles[0].data.len(), 2);
    }

    #[test]
    fn results_are_removed() {
        let mut results = RichResults::default();
        results.record(&request(&text("1"))).expect("a result");
        assert_eq!(results.record(&request(&clear("clear"))), Some(Recorded::Clear { waits: false }));
        assert!(results.bundles.is_empty());
        results.record(&request(&text("2"))).expect("a result");
        assert_eq!(results.record(&request(&clear("clear_before_next"))), Some(Recorded::Clear { waits: true }));
        assert_eq!(texts(&results), ["2"]);
        for number in 3..5 {
            results.record(&request(&text(&number.to_string()))).expect("a result");
        }
        assert_eq!((texts(&results), results.dropped), (vec!["3", "4"], 0));
    }

    #[test]
    fn forms_above_the_maximum_are_left_out() {
        let mut results = RichResults::default();
        let document = format!("[{}0]", "0,".repeat(MAX_JSON_SIZE / 2 - 100));
        let sent = serde_json::json!({
            "role": "display", "data": {"text/plain": "x"}, "json": {"application/json": document}, "metadata": "{}",
        });
        for _ in 0..2 {
            results.record(&request(&sent)).expect("a result");
        }
        let kinds = |at: usize| results.bundles[at].data.keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!((kinds(0), kinds(1)), (vec!["application/json", "text/plain"], vec!["text/plain"]));
        assert_eq!((results.bundles.len(), results.dropped), (2, 1));

        let deep = "[".repeat(100_000);
        let image = "x".repeat(MAX_SIZE);
        for (data, json, incomplete, kept) in [
            (serde_json::json!({"text/plain": "x"}), serde_json::json!({"a": deep}), false, 1),
            (serde_json::json!({"text/plain": "x"}), serde_json::json!({"a": "1e999"}), false, 1),
            (serde_json::json!({"text/plain": "x", "image/png": image}), serde_json::json!({}), false, 1),
            (serde_json::json!({"text/plain": "x", "y".repeat(300): "x"}), serde_json::json!({}), false, 1),
            (serde_json::json!({"text/plain": "x"}), serde_json::json!({}), true, 1),
            (serde_json::json!({}), serde_json::json!({}), false, 0),
        ] {
            let mut results = RichResults::default();
            let sent = serde_json::json!({
                "role": "value", "data": data, "json": json, "metadata": "{}", "incomplete": incomplete,
            });
            results.record(&request(&sent)).expect("a result");
            assert_eq!((results.bundles.len(), results.dropped), (kept, 1));
            assert!(results.bundles.iter().all(|bundle| bundle.data.len() == 1), "{results:?}");
        }
    }

    #[test]
    fn malformed_results_are_refused() {
        let mut results = RichResults::default();
        let with = |name: &str, value: Value| {
            let mut sent = text("x");
            sent[name] = value;
            request(&sent)
        };
        let many: serde_json::Map<_, _> = (0..=MAX_FORMS).map(|n| (n.to_string(), "x".into())).collect();
        for bad in [
            vec![RESULT_TAG],
            b"\x03[]".to_vec(),
            with("role", "other".into()),
            with("data", serde_json::json!({"a": 1})),
            with("json", serde_json::json!({"a": {}})),
            with("data", many.into()),
            with("metadata", "[]".into()),
            with("role", "update".into()),
            with("display_id", 1.into()),
            with("display_id", "x".repeat(MimeBundle::MAX_ID_LEN + 1).into()),
        ] {
            assert_eq!(results.record(&bad), None, "{}", String::from_utf8_lossy(&bad[..bad.len().min(100)]));
        }
        assert!(results.bundles.is_empty());
    }

    #[test]
    fn names_are_mime_types() {
        let mut results = RichResults::default();
        let sent = serde_json::json!({
            "role": "display", "metadata": "{}",
            "data": {"": "a", "x": "b", "a b/c": "c", "\u{1b}[31m/x": "d", "text/plain;charset=utf-8": "e"},
            "json": {"text/plain": "1", "x/y": "{}", "application/geo+json": "{}"},
        });
        results.record(&request(&sent)).expect("a result");
        let kinds: Vec<_> = results.bundles[0].data.keys().map(String::as_str).collect();
        assert_eq!((kinds, results.dropped), (vec!["application/geo+json", "text/plain;charset=utf-8"], 1));
    }
}
