//! Compact Markdown about runs, for the author of a program, such as a language model.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use codebox_core::{
    CapturedOutput, ErrorFrame, LimitKind, MimeBundle, Outcome, OutputShape, ResultRole, RunReport, RunnerError,
    SessionState, shorten_line,
};
use codebox_service::limit_text::{limit_value, name_and_flag};

use crate::parse::Block;
use crate::report::{BlockReport, BlockStatus, BlocksReport};

/// Maximum number of calls of an error that are listed.
const MAX_FRAMES: usize = 10;

/// Maximum number of results of a run that are shown.
const MAX_RESULTS: usize = 20;

/// Maximum length of single lines, such as messages and lines of code, in bytes.
const MAX_LINE: usize = 500;

/// Limits that are listed.
const LISTED: [LimitKind; 3] = [LimitKind::Wall, LimitKind::Memory, LimitKind::Output];

/// Returns Markdown about the blocks of a text. Output, values and messages are shortened by a policy, each for itself.
#[must_use]
pub fn of_blocks(report: &BlocksReport, policy: OutputShape) -> String {
    let mut text = summary(report);
    text.push('\n');
    let lines: BTreeMap<usize, usize> = report.blocks.iter().map(|one| (one.block.number, one.block.line)).collect();
    let mut tiers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for one in &report.blocks {
        let Block { number, language, line, .. } = one.block;
        let Some(result) = &one.result else { continue };
        let _ = writeln!(text, "\n### Block {number} ({}, line {line}): {}", language.as_str(), status(one));
        let body = match result {
            Ok(run) => {
                tiers.entry(environment(run)).or_default().push(number);
                body(run, policy, &|frame| place_in_text(frame, one, &lines))
            }
            Err(error) => refusal(error),
        };
        text.push_str(&paragraph(&body));
    }
    let is_single = tiers.len() == 1;
    for (environment, numbers) in tiers {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let of = if is_single { String::new() } else { format!(" (blocks {})", numbers.join(", ")) };
        let _ = writeln!(text, "\nRan in {environment}{of}.");
    }
    text
}

/// Returns Markdown about one run.
#[must_use]
pub fn of_run(report: &RunReport, policy: OutputShape) -> String {
    let mut text = format!("{}\n", ending(report));
    let body = body(report, policy, &|frame| Some(format!("{}, line {}", frame.file, frame.line)));
    text.push_str(&paragraph(&body));
    let _ = writeln!(text, "\nRan in {}.", environment(report));
    text
}

/// Returns Markdown about a run that was refused.
#[must_use]
pub fn refusal(error: &RunnerError) -> String {
    let fix = error.fix().map(|fix| format!("\nFix: {}\n", one_line(fix))).unwrap_or_default();
    format!("Refused: {}\n{fix}", one_line(error.message()))
}

fn summary(report: &BlocksReport) -> String {
    let count = |status| report.blocks.iter().filter(|one| one.status == status).count();
    let parts = [
        (BlockStatus::Passed, "passed"),
        (BlockStatus::Failed, "failed"),
        (BlockStatus::Skipped, "skipped"),
        (BlockStatus::NotRun, "not run"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(status, word)| Some((count(status), word)).filter(|(count, _)| *count > 0))
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    match report.blocks.len() {
        0 => "The text has no blocks of a language that codebox runs.".to_owned(),
        1 => format!("1 block: {}.", parts.join(", ")),
        blocks => format!("{blocks} blocks: {}.", parts.join(", ")),
    }
}

fn status(one: &BlockReport) -> String {
    let expected = match (one.block.expects_error, one.status) {
        (true, BlockStatus::Passed) => ", as expected",
        (true, BlockStatus::Failed) => ", but an error was expected",
        _ => "",
    };
    match &one.result {
        Some(Ok(report)) => format!("{}{expected}", ending(report)),
        Some(Err(_)) => "refused".to_owned(),
        None => "not run".to_owned(),
    }
}

/// Returns a text after an empty line, unless it is empty.
fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n{text}") }
}

/// Returns the end of a run as words.
fn ending(report: &RunReport) -> String {
    match &report.outcome {
        Outcome::Exited(0) => "succeeded".to_owned(),
        Outcome::Exited(_) if report.error.is_some() => "failed".to_owned(),
        Outcome::Exited(status) => format!("failed with exit status {status}"),
        Outcome::Signalled(signal) => format!("ended by signal {signal}"),
        Outcome::Trapped(trap) => format!("trapped: {trap}"),
        Outcome::LimitHit(kind) => limit(*kind, report),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Suspended => "suspended".to_owned(),
    }
}

/// Returns a line about the limit that ended a run. The author of the program cannot raise it.
fn limit(kind: LimitKind, report: &RunReport) -> String {
    let value = limit_value(kind, &report.limits).map(|value| format!(" of {value}")).unwrap_or_default();
    format!("ended by the {} limit{value}", name_and_flag(kind).0)
}

/// Returns the output, the results, the error and the hints of a run. `place` returns the place of a call for the reader.
fn body(report: &RunReport, policy: OutputShape, place: &dyn Fn(&ErrorFrame) -> Option<String>) -> String {
    let mut parts = Vec::new();
    // The traceback on standard error repeats the error.
    let stderr = match &report.error {
        Some(error) if !error.frames.is_empty() => without_traceback(&report.stderr, &error.traceback),
        _ => text_of(&report.stderr),
    };
    parts.extend(section("Output", &text_of(&report.stdout), policy));
    parts.extend(section("Error output", &stderr, policy));
    parts.extend(report.results.iter().take(MAX_RESULTS).filter_map(|result| shown(result, policy)));
    let left = report.results.len().saturating_sub(MAX_RESULTS) as u64 + report.results_dropped;
    if left > 0 {
        parts.push(format!("{left} more results.\n"));
    }
    if let Some(error) = &report.error {
        let message = if error.value.is_empty() { String::new() } else { format!(": {}", error.value) };
        let mut text = section("Error", &format!("{}{message}", error.name), policy).unwrap_or_default();
        let skipped = error.frames.len().saturating_sub(MAX_FRAMES);
        for frame in error.frames.iter().skip(skipped) {
            let Some(place) = place(frame) else { continue };
            let code = frame.code.as_deref().map(|code| format!(": {}", code_span(code))).unwrap_or_default();
            let _ = writeln!(text, "- {}{code}", one_line(&place));
        }
        parts.push(text);
    }
    for file in &report.spilled {
        parts.push(format!("Note: {}\n", one_line(&file.to_string())));
    }
    let hints = report.missing.iter().map(|missing| (format!("not available: {}", missing.what), &missing.hint));
    let denials = report.denials.iter().map(|denial| (format!("denied: {}", denial.detail), &denial.hint));
    for (what, hint) in hints.chain(denials) {
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        parts.push(format!("Note: {}\n", one_line(&format!("{what}{hint}"))));
    }
    if let Some(session) = &report.session {
        parts.extend(state(session).map(|line| format!("Note: {line}\n")));
    }
    parts.join("\n")
}

/// Returns a line about the state of a session, unless it went on from the cell before and goes on.
fn state(session: &SessionState) -> Option<String> {
    let before = match (&session.restored_from, session.was_lost) {
        (Some(name), _) => format!("the session started from its checkpoint {} for this cell", one_line(name)),
        (None, true) => "the session started without its earlier state".to_owned(),
        (None, false) => String::new(),
    };
    let after = if session.is_kept {
        ""
    } else {
        "the interpreter has ended, and the state of the session since its last checkpoint is lost"
    };
    let parts: Vec<&str> = [before.as_str(), after].into_iter().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the place of a call in the text with the blocks; `None` for a call inside the interpreter.
fn place_in_text(frame: &ErrorFrame, one: &BlockReport, lines: &BTreeMap<usize, usize>) -> Option<String> {
    let number = match frame.file.strip_prefix("<cell ").and_then(|rest| rest.strip_suffix('>')) {
        Some(cell) => *one.cells.get(cell.parse::<usize>().ok()?.checked_sub(1)?)?,
        // The text of a session has another name, and this one is that of `exec` or `eval`.
        None if frame.file == "<string>" && one.cells.is_empty() && is_in_block(frame, &one.block) => one.block.number,
        None => return Some(format!("{}, line {}", frame.file, frame.line)),
    };
    let line = lines.get(&number)? + usize::try_from(frame.line).ok()?.saturating_sub(1);
    let of = if number == one.block.number { String::new() } else { format!(" (block {number})") };
    Some(format!("line {line}{of}"))
}

/// Returns true if the code of a block has the line of a call.
fn is_in_block(frame: &ErrorFrame, block: &Block) -> bool {
    usize::try_from(frame.line).is_ok_and(|line| line <= block.code.lines().count())
}

/// Returns the standard error without the traceback at its end.
fn without_traceback(stderr: &CapturedOutput, traceback: &[String]) -> String {
    let text = text_of(stderr);
    match text.trim_end().strip_suffix(traceback.join("\n").trim_end()) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

fn text_of(output: &CapturedOutput) -> String {
    plain(&output.to_text_lossy())
}

/// Returns a result that was shown, in its text form, or the kinds of its forms.
fn shown(result: &MimeBundle, policy: OutputShape) -> Option<String> {
    let title = match result.role {
        ResultRole::Value => "Value",
        ResultRole::Display | ResultRole::Update => "Displayed",
    };
    let image = result.data.iter().find(|(kind, _)| kind.starts_with("image/"));
    match (image, result.data.get("text/plain").and_then(|text| text.as_str())) {
        (Some((kind, _)), _) => Some(format!("{title}: an image, {}\n", code_span(kind))),
        (None, Some(text)) => section(title, &plain(text), policy),
        (None, None) => {
            let kinds: Vec<&str> = result.data.keys().map(String::as_str).collect();
            Some(format!("{title}: {}\n", code_span(&kinds.join(", "))))
        }
    }
}

/// Returns a text under a title: a short line in the line of the title, and others in a fenced block.
fn section(title: &str, text: &str, policy: OutputShape) -> Option<String> {
    let text = policy.apply_to_text(text.trim_end_matches('\n'));
    if text.trim().is_empty() {
        return None;
    }
    if !text.contains('\n') && text.len() <= MAX_LINE {
        return Some(format!("{title}: {}\n", code_span(&text)));
    }
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    Some(format!("{title}:\n{fence}text\n{text}\n{fence}\n"))
}

/// Returns a line as a code span, which backticks in it do not end.
fn code_span(line: &str) -> String {
    let line = one_line(line);
    let line = line.trim();
    let ticks = "`".repeat(longest_run(line) + 1);
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// Returns the length of the longest sequence of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns a text of a guest without terminal sequences and control characters, except line feeds and tabs.
#[must_use]
pub fn plain(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    text.replace("\r\n", "\n").chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Returns a text of a guest as one line, shortened, without terminal sequences and control characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    shorten_line(&plain(text).replace('\n', " "), MAX_LINE).into_owned()
}

/// Returns the isolation of a run, its engine, and its limits.
fn environment(report: &RunReport) -> String {
    let provenance = &report.provenance;
    let engine = match provenance.isolation {
        codebox_core::Isolation::Wasm => String::new(),
        _ => provenance.engine.as_ref().map(|engine| format!(" ({engine})")).unwrap_or_default(),
    };
    let limits: Vec<String> = LISTED
        .into_iter()
        .filter_map(|kind| Some(format!("{} {}", name_and_flag(kind).0, limit_value(kind, &report.limits)?)))
        .collect();
    let limits = if limits.is_empty() { String::new() } else { format!(", limits: {}", limits.join(", ")) };
    format!("{}{engine}{limits}", provenance.isolation)
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, GuestError, Isolation, Limits, Provenance};

    use super::*;
    use crate::parse::parse;

    fn report(outcome: Outcome) -> RunReport {
        RunReport::new(outcome, Provenance::new(BackendId::new("wasm"), Isolation::Wasm), Limits::default())
    }

    fn output(text: &str) -> CapturedOutput {
        CapturedOutput { head: text.as_bytes().to_vec(), ..CapturedOutput::default() }
    }

    fn frame(file: &str, line: u32, code: &str) -> ErrorFrame {
        ErrorFrame { file: file.to_owned(), line, column: None, function: None, code: Some(code.to_owned()) }
    }

    #[test]
    fn feedback_names_lines_of_the_text() {
        let text = "# A\n\n```py\ndef f():\n    return 1 / 0\n```\n\nthen\n\n```py\nprint(1)\nf()\n```\n\n```py skip\n```\n\n```js\n```\n";
        let mut blocks = parse(text).expect("few blocks").into_iter();
        let mut next = || blocks.next().expect("a block");
        let mut failed = report(Outcome::Exited(1));
        let traceback = vec!["Traceback".to_owned(), "ZeroDivisionError: division by zero".to_owned()];
        failed.stdout = output("1\n");
        failed.stderr = output("warning\nTraceback\nZeroDivisionError: division by zero\n");
        failed.error = Some(GuestError {
            name: "ZeroDivisionError".to_owned(),
            value: "division by zero".to_owned(),
            traceback,
            line: Some(2),
            frames: vec![frame("<cell 2>", 2, "f()"), frame("<cell 1>", 2, "return 1 / 0")],
        });
        let reports = BlocksReport {
            blocks: vec![
                BlockReport::ended(next(), Ok(report(Outcome::Exited(0))), vec![1]),
                BlockReport::ended(next(), Ok(failed), vec![1, 2]),
                BlockReport::not_run(next(), BlockStatus::Skipped),
                BlockReport::not_run(next(), BlockStatus::NotRun),
            ],
        };
        assert_eq!(reports.exit_status(), 1);
        let feedback = of_blocks(&reports, OutputShape::default());
        let expected = "\
4 blocks: 1 passed, 1 failed, 1 skipped, 1 not run.

### Block 1 (python, line 4): succeeded

### Block 2 (python, line 11): failed

Output: `1`

Error output: `warning`

Error: `ZeroDivisionError: division by zero`
- line 12: `f()`
- line 5 (block 1): `return 1 / 0`

Ran in wasm, limits: wall time 1m, memory 1 GiB, output 16 MiB.
";
        assert_eq!(feedback, expected);
    }

    #[test]
    fn output_cannot_imitate_the_feedback() {
        let mut hostile = report(Outcome::Exited(0));
        hostile.stdout = output("a\n```\n### Block 9\n````\n\u{1b}[31mred\u{1b}[0m\u{8}\n");
        let feedback = of_run(&hostile, OutputShape::default());
        let expected = "`````text\na\n```\n### Block 9\n````\nred\n`````\n";
        assert!(feedback.contains(expected), "{feedback}");
        let kind = "image/\n### Block 9\n\u{1b}[2J";
        hostile.results = vec![MimeBundle { data: [(kind.to_owned(), "eA==".into())].into(), ..MimeBundle::default() }];
        let shown = of_run(&hostile, OutputShape::default());
        assert!(shown.contains("Displayed: an image, `image/ ### Block 9`\n") && !shown.contains('\u{1b}'), "{shown}");
        hostile.results =
            vec![MimeBundle { data: [("a\n# b".to_owned(), "x".into())].into(), ..MimeBundle::default() }];
        assert!(of_run(&hostile, OutputShape::default()).contains("Displayed: `a # b`\n"));
        hostile.stdout = output("a`b``c");
        assert!(of_run(&hostile, OutputShape::default()).contains("Output: ```a`b``c```\n"));
    }

    #[test]
    fn output_is_shortened() {
        let mut long = report(Outcome::Exited(0));
        long.stdout = output(&"line\n".repeat(1000));
        let feedback = of_run(
            &long,
            OutputShape { max_lines: std::num::NonZeroU64::new(3).expect("not zero"), ..OutputShape::default() },
        );
        assert!(feedback.contains("```text\nline\nline\nline\n...[truncated]\n```\n"), "{feedback}");
    }

    #[test]
    fn limits_and_refusals_are_named() {
        let limit = of_run(&report(Outcome::LimitHit(LimitKind::Wall)), OutputShape::default());
        assert!(limit.starts_with("ended by the wall time limit of 1m\n"), "{limit}");
        let error = RunnerError::new(codebox_core::ResultKind::InvalidRequest, "no\nengine").with_fix("start one");
        assert_eq!(refusal(&error), "Refused: no engine\n\nFix: start one\n");
    }
}
