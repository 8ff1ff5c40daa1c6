//! Errors of Node.

use super::{last_lines, quoted};
use crate::guest_error::{ErrorFrame, GuestError};

/// Start of the description of a missing function of the library.
pub(super) const LIBRARY_PREFIX: &str = "Node's ";

/// Modules of the library that Node has and the runtime in WebAssembly lacks.
pub(super) const NATIVE_MODULES: [&str; 3] = ["node:sqlite", "node:test", "node:inspector"];

/// Reads the first error: its first line is above the stack, or it is a line of its own.
pub(super) fn parse_error(text: &str) -> Option<GuestError> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    // The first line of an error is above the stack, after an empty line or at the start of the text. An error without
    // a stack is a single line.
    let is_head =
        |line: &&str| error_name(line).is_some_and(|name| name.ends_with("Error") || name.ends_with("Exception"));
    let stack = lines.iter().position(|line| line.starts_with("    at "));
    let above_stack = stack.and_then(|stack| {
        let begin = lines[..stack].iter().rposition(|line| line.trim().is_empty()).map_or(0, |blank| blank + 1);
        (begin < stack && error_name(lines[begin]).is_some()).then_some(begin)
    });
    let at = above_stack.or_else(|| lines.iter().position(is_head))?;
    let head = lines[at].strip_prefix("Uncaught ").unwrap_or(lines[at]);
    let name = error_name(head)?;
    let value = head.split_once(": ").map_or("", |(_, value)| value);
    // The line in `file:3` above the excerpt that Node shows, otherwise that of the first stack frame outside Node.
    let own = |line: &&&str| !line.contains("node:") && !line.starts_with("    at ");
    let above = lines[..at].iter().filter(own).find_map(|line| arrow_line(line));
    let places = lines[at..].iter().filter(|line| line.trim_start().starts_with("at ") && !line.contains("node:"));
    let below = || places.filter_map(|line| stack_line(line)).next();
    Some(GuestError {
        name: name.to_owned(),
        value: value.trim_end_matches(" {").to_owned(),
        traceback: last_lines(&lines[at..]),
        line: above.or_else(below),
        frames: Vec::new(),
    })
}

/// Returns the name at the start of an error's first line: `TypeError: no`, `Error [ERR_X]: no`, `Own`.
fn error_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("Uncaught ").unwrap_or(line);
    let name = line.split([':', ' ']).next()?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$'))
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    is_name.then_some(name)
}

/// Returns the line number in `file:3` or `file:3:5`.
fn arrow_line(line: &str) -> Option<u32> {
    let (rest, last) = line.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let before = rest.rsplit_once(':').and_then(|(_, number)| number.parse().ok());
    Some(before.unwrap_or(last))
}

/// Returns the line number in `    at f (file:3:5)`.
fn stack_line(line: &str) -> Option<u32> {
    let frame_line = line.trim_end_matches(')');
    let (rest, _column) = frame_line.rsplit_once(':')?;
    rest.rsplit_once(':')?.1.parse().ok()
}

/// Reads lines like `    at f (/work/a.js:3:5)` and `    at /work/a.js:3:5`, of which the innermost call is the first, without
/// those of Node's own library. The calls of a cause and properties of the error follow a line that ends with a brace.
pub(super) fn frames(traceback: &[String]) -> Vec<ErrorFrame> {
    let first = traceback.iter().position(|line| line.starts_with("    at ")).unwrap_or(traceback.len());
    let mut frames = Vec::new();
    for line in &traceback[first..] {
        let Some(call) = line.strip_prefix("    at ") else { break };
        let (call, is_last) = match call.strip_suffix(" {") {
            Some(call) => (call, true),
            None => (call, false),
        };
        frames.extend(frame(call));
        if is_last {
            break;
        }
    }
    // The excerpt in front of the error: the place, the line, and a mark below it.
    if let (Some(innermost), [place, code, mark, ..]) = (frames.first_mut(), traceback)
        && mark.trim() == "^"
        && place.ends_with(&format!(":{}", innermost.line))
    {
        innermost.code = Some(code.trim().to_owned());
    }
    frames.reverse();
    frames
}

/// Parses a call: `f (/work/a.js:3:5)` or `/work/a.js:3:5`.
fn frame(call: &str) -> Option<ErrorFrame> {
    let call = call.strip_prefix("async ").unwrap_or(call);
    let (function, place) = match call.strip_suffix(')').and_then(|call| call.split_once(" (")) {
        Some((function, place)) => (Some(function.to_owned()), place),
        None => (None, call),
    };
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    let file = file.strip_prefix("file://").unwrap_or(file);
    // The name of a text without a file becomes a path if it is a module.
    let own_name = file.rsplit('/').next().filter(|name| name.starts_with('<') && name.ends_with('>'));
    let file = own_name.unwrap_or(file);
    if file.starts_with("node:") || file.starts_with("eval at ") {
        return None;
    }
    Some(ErrorFrame {
        file: file.to_owned(),
        line: line.parse().ok()?,
        column: column.parse().ok(),
        function,
        code: None,
    })
}

pub(super) fn missing_module(error: &GuestError) -> Option<String> {
    let name = ["Cannot find module '", "Cannot find package '"].iter().find_map(|prefix| quoted(&error.value, prefix));
    name.filter(|name| !name.starts_with(['.', '/']) && !name.starts_with("file:"))
}
