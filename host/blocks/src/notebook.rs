//! Jupyter notebooks, in the format of nbformat 4: their code cells are blocks.

use std::collections::HashMap;

use codebox_core::{GuestError, MimeBundle, ResultKind, ResultRole, RunReport, RunnerError};
use serde::Serialize as _;
use serde_json::{Map, Value, json};

use crate::ordered::Part;
use crate::parse::{Block, BlockLanguage, MAX_BLOCKS};
use crate::report::{BlockReport, BlockStatus, BlocksReport};

/// Minor version of the format that [`Notebook::with_outputs`] writes, the first in which cells have ids.
const MINOR: u64 = 5;

/// Tag of a cell that may end with an error.
const MAY_FAIL: &str = "raises-exception";

/// Tag of a cell that is not run.
const SKIPPED: &str = "skip-execution";

/// Notebook.
#[derive(Debug, Clone, PartialEq)]
pub struct Notebook {
    document: Map<String, Value>,
    cells: Vec<Value>,
    language: BlockLanguage,
}

impl Notebook {
    /// Parses a notebook. Its language is that of its kernel, and Python if it names none.
    ///
    /// # Errors
    /// Returns an error if the text is not a notebook of nbformat 4, has a language that has no sessions, or has more than
    /// [`MAX_BLOCKS`] cells.
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        let refused = |line: &str, fix: &str| RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix);
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed: Result<Map<String, Value>, _> = serde_json::from_str(text);
        let mut document = parsed.map_err(|error| {
            refused(&format!("the notebook is not valid JSON: {error}"), "save it again with a notebook editor")
        })?;
        if document.get("nbformat").and_then(Value::as_u64) != Some(4) {
            let fix = "convert it with jupyter nbconvert --to notebook";
            return Err(refused("the notebook is not in the format nbformat 4", fix));
        }
        let Some(Value::Array(cells)) = document.get_mut("cells").map(Value::take) else {
            return Err(refused("the notebook has no list of cells", "save it again with a notebook editor"));
        };
        if cells.len() > MAX_BLOCKS {
            let line = format!("the notebook has more than {MAX_BLOCKS} cells");
            return Err(refused(&line, "split the notebook"));
        }
        let metadata = document.get("metadata");
        let named = ["/kernelspec/language", "/language_info/name"];
        let name = named.into_iter().find_map(|place| metadata?.pointer(place)?.as_str()).unwrap_or("python");
        let language = BlockLanguage::from_name(name).filter(|language| language.of_session().is_some());
        let language = language.ok_or_else(|| {
            let line = format!("the notebook is for the language {name:?}");
            refused(&line, "codebox runs notebooks in Python, JavaScript and TypeScript")
        })?;
        Ok(Self { document, cells, language })
    }

    /// Returns the code cells, in order. Cells without code, and those with the tag `skip-execution`, are skipped; `raises-exception`
    /// allows an error. The line of a block is that in its cell.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let code = self.cells.iter().filter(|cell| is_code(cell));
        let block = |(index, cell): (usize, &Value)| {
            let code = text_of(cell.get("source"));
            Block {
                number: index + 1,
                language: self.language,
                line: 1,
                skip: code.trim().is_empty() || has_tag(cell, SKIPPED),
                expects_error: false,
                may_fail: has_tag(cell, MAY_FAIL),
                code: if self.language == BlockLanguage::Python { without_inline_magics(&code) } else { code },
            }
        };
        code.enumerate().map(block).collect()
    }

    /// Returns the JSON text of the notebook with the outputs of these blocks, which are those of [`blocks`](Self::blocks). A cell that
    /// was not run has no outputs.
    #[must_use]
    pub fn with_outputs(mut self, report: &BlocksReport) -> String {
        let minor = self.document.get("nbformat_minor").and_then(Value::as_u64).unwrap_or(0).max(MINOR);
        self.document.insert("nbformat_minor".to_owned(), minor.into());
        self.document.entry("metadata").or_insert_with(|| json!({}));
        let mut blocks = report.blocks.iter();
        let mut count = 0;
        let last_forms = last_forms(report);
        let ids: Vec<String> =
            self.cells.iter().filter_map(|cell| cell.get("id")?.as_str().map(str::to_owned)).collect();
        let mut free = (1..).map(|number: usize| format!("cell-{number}")).filter(|id| !ids.contains(id));
        for cell in &mut self.cells {
            let is_code = is_code(cell);
            let Value::Object(cell) = cell else { continue };
            if !cell.contains_key("id") {
                cell.insert("id".to_owned(), free.next().unwrap_or_default().into());
            }
            let Some(one) = is_code.then(|| blocks.next()).flatten() else { continue };
            let was_run = !matches!(one.status, BlockStatus::Skipped | BlockStatus::NotRun);
            count += usize::from(was_run);
            cell.insert("execution_count".to_owned(), if was_run { count.into() } else { Value::Null });
            cell.insert("outputs".to_owned(), outputs(one, count, &last_forms).into());
        }
        self.document.insert("cells".to_owned(), self.cells.into());
        indented(&self.document)
    }
}

fn is_code(cell: &Value) -> bool {
    cell.get("cell_type").and_then(Value::as_str) == Some("code")
}

fn has_tag(cell: &Value, tag: &str) -> bool {
    cell.pointer("/metadata/tags").and_then(Value::as_array).is_some_and(|tags| tags.iter().any(|own| own == tag))
}

/// Returns a text that is a string or a list of its lines.
fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Commands of IPython that have no effect here: figures are always inline, and modules are not edited during a run.
const INLINE_MAGICS: [&str; 6] =
    ["%matplotlib", "%config InlineBackend", "%load_ext autoreload", "%reload_ext autoreload", "%autoreload", "%%time"];

/// Returns the first line of a text that is a command of IPython.
#[must_use]
pub fn ipython_command(code: &str) -> Option<&str> {
    code.lines().map(str::trim).find(|line| line.starts_with(['!', '%']))
}

/// Turns commands of IPython that have no effect here into comments. The numbers of lines stay the same.
#[must_use]
pub fn without_inline_magics(code: &str) -> String {
    let is_inline = |line: &str| {
        INLINE_MAGICS.iter().any(|magic| {
            line.strip_prefix(magic).is_some_and(|rest| rest.trim().is_empty() || rest.starts_with([' ', '.', '\n']))
        })
    };
    code.split_inclusive('\n').map(|line| if is_inline(line) { format!("# {line}") } else { line.to_owned() }).collect()
}

/// Returns the last forms of the results that the blocks have replaced, also those of earlier blocks, by their identifiers.
fn last_forms(report: &BlocksReport) -> HashMap<&str, &MimeBundle> {
    let shown = report.blocks.iter().flat_map(|one| &one.parts).filter_map(|part| match part {
        Part::Result(result) => Some((result.display_id.as_deref()?, result)),
        Part::Stream(..) => None,
    });
    shown.collect()
}

/// Returns the outputs of a block in the form of nbformat, in their order, and its error.
fn outputs(one: &BlockReport, count: usize, last_forms: &HashMap<&str, &MimeBundle>) -> Vec<Value> {
    let report = match &one.result {
        Some(Ok(report)) => report,
        Some(Err(error)) => {
            return vec![
                json!({"output_type": "error", "ename": error.kind().as_str(), "evalue": error.message(), "traceback": []}),
            ];
        }
        None => return Vec::new(),
    };
    let last_error = one.parts.iter().rposition(|part| matches!(part, Part::Stream(1, _)));
    let mut outputs = Vec::new();
    for (at, part) in one.parts.iter().enumerate() {
        match part {
            Part::Stream(stream, bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let text = match &report.error {
                    Some(error) if Some(at) == last_error => without_traceback(&text, error),
                    _ => &*text,
                };
                if !text.is_empty() {
                    let name = ["stdout", "stderr"][*stream];
                    outputs.push(json!({"output_type": "stream", "name": name, "text": lines(text)}));
                }
            }
            Part::Result(result) => {
                let forms = result.display_id.as_deref().and_then(|id| last_forms.get(id).copied());
                outputs.extend(rich_output(result, forms.unwrap_or(result), count));
            }
        }
    }
    outputs.extend(error_output(report));
    outputs
}

/// Returns the text without the traceback at its end, which is an output of its own.
fn without_traceback<'t>(text: &'t str, error: &GuestError) -> &'t str {
    let traceback = error.traceback.join("\n");
    let before = text.trim_end_matches('\n').strip_suffix(traceback.trim_end_matches('\n'));
    before.filter(|_| !traceback.is_empty()).unwrap_or(text)
}

/// Returns the output of a result with these forms; `None` for new forms of another one.
fn rich_output(result: &MimeBundle, forms: &MimeBundle, count: usize) -> Option<Value> {
    let data: Map<String, Value> = forms
        .data
        .iter()
        .map(|(kind, value)| match value {
            Value::String(text) if kind.starts_with("text/") || kind == "image/svg+xml" => (kind.clone(), lines(text)),
            other => (kind.clone(), other.clone()),
        })
        .collect();
    let metadata = &forms.metadata;
    match result.role {
        ResultRole::Display => Some(json!({"output_type": "display_data", "data": data, "metadata": metadata})),
        ResultRole::Value => {
            Some(json!({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": metadata}))
        }
        ResultRole::Update => None,
    }
}

/// Returns the error of the program, or the reason for which it was stopped.
fn error_output(report: &RunReport) -> Option<Value> {
    if let Some(error) = &report.error {
        let GuestError { name, value, traceback, .. } = error;
        return Some(json!({"output_type": "error", "ename": name, "evalue": value, "traceback": traceback}));
    }
    let kind = report.result_kind();
    (kind != ResultKind::Ok).then(
        || json!({"output_type": "error", "ename": kind.as_str(), "evalue": "the cell was stopped", "traceback": []}),
    )
}

/// Returns a text as the list of its lines, each with its line feed.
fn lines(text: &str) -> Value {
    text.split_inclusive('\n').collect::<Vec<_>>().into()
}

/// Returns a document as JSON with an indentation of one space, as notebook editors write it.
fn indented(document: &Map<String, Value>) -> String {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    // A map of texts and numbers is always serialized, as UTF-8.
    let _ = document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter));
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, Isolation, Limits, Outcome, Provenance};

    use super::*;

    fn notebook(cells: &Value) -> Notebook {
        let document = json!({"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": cells});
        Notebook::parse(&document.to_string()).expect("a notebook")
    }

    #[test]
    fn code_cells_are_blocks() {
        let cells = json!([
            {"cell_type": "markdown", "source": "# Title"},
            {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1\n", "x % 2"], "outputs": [], "execution_count": 7},
            {"cell_type": "code", "source": "  "},
            {"cell_type": "code", "source": "1/0", "metadata": {"tags": ["raises-exception"]}},
            {"cell_type": "code", "source": "x", "metadata": {"tags": ["skip-execution"]}},
        ]);
        let blocks = notebook(&cells).blocks();
        let shown: Vec<_> = blocks.iter().map(|b| (b.number, b.code.as_str(), b.skip, b.may_fail)).collect();
        let first = "# %matplotlib inline\nx = 1\nx % 2";
        let expected =
            [(1, first, false, false), (2, "  ", true, false), (3, "1/0", false, true), (4, "x", true, false)];
        assert_eq!(shown, expected);
    }

    #[test]
    fn other_documents_are_refused() {
        let cells = |count: usize| vec![json!({"cell_type": "code", "source": ""}); count];
        for (text, part) in [
            ("[1]".to_owned(), "not valid JSON"),
            ("{".to_owned(), "not valid JSON"),
            (json!({"nbformat": 3, "worksheets": []}).to_string(), "nbformat 4"),
            (json!({"nbformat": 4, "cells": {}}).to_string(), "no list of cells"),
            (json!({"nbformat": 4, "cells": cells(MAX_BLOCKS + 1)}).to_string(), "more than"),
            (json!({"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "R"}}}).to_string(), "\"R\""),
            (json!({"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "bash"}}}).to_string(), "bash"),
        ] {
            let error = Notebook::parse(&text).expect_err(&text);
            assert!(error.message().contains(part), "{}", error.message());
        }
    }

    #[test]
    fn outputs_are_in_the_format_of_notebooks() {
        let cells = json!([
            {"cell_type": "code", "source": "a", "id": "cell-1"},
            {"cell_type": "markdown", "source": "b"},
            {"cell_type": "code", "source": "c", "outputs": [{"output_type": "stream"}], "execution_count": 3},
        ]);
        let notebook = notebook(&cells);
        let provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
        let mut report = RunReport::new(Outcome::Exited(1), provenance, Limits::default());
        report.error = Some(GuestError {
            name: "E".to_owned(),
            value: "x".to_owned(),
            traceback: vec!["Traceback:".to_owned(), "E: x".to_owned()],
            ..GuestError::default()
        });
        let data = [("text/plain".to_owned(), "3".into()), ("image/png".to_owned(), "AA==".into())];
        let result = MimeBundle { data: data.into_iter().collect(), role: ResultRole::Value, ..MimeBundle::default() };
        let mut blocks = notebook.blocks().into_iter();
        let mut ran = BlockReport::ended(blocks.next().expect("a cell"), Ok(report), vec![1]);
        let stream = |stream, text: &str| Part::Stream(stream, text.as_bytes().to_vec());
        ran.parts = vec![
            stream(0, "1\n2"),
            stream(1, "warned\n"),
            Part::Result(result),
            stream(0, "after\n"),
            stream(1, "Traceback:\nE: x\n"),
        ];
        let left = BlockReport::not_run(blocks.next().expect("a cell"), BlockStatus::NotRun);
        let text = notebook.with_outputs(&BlocksReport { blocks: vec![ran, left] });
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&document["nbformat"], &document["nbformat_minor"]), (&json!(4), &json!(5)));
        assert_eq!(document["cells"][0]["execution_count"], 1);
        assert_eq!(
            document["cells"][0]["outputs"],
            json!([
                {"output_type": "stream", "name": "stdout", "text": ["1\n", "2"]},
                {"output_type": "stream", "name": "stderr", "text": ["warned\n"]},
                {"output_type": "execute_result", "execution_count": 1,
                 "data": {"text/plain": ["3"], "image/png": "AA=="}, "metadata": {}},
                {"output_type": "stream", "name": "stdout", "text": ["after\n"]},
                {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["Traceback:", "E: x"]},
            ])
        );
        assert_eq!(document["cells"][1]["id"], "cell-2");
        assert_eq!(
            (&document["cells"][2]["outputs"], &document["cells"][2]["execution_count"]),
            (&json!([]), &Value::Null)
        );
    }
}
