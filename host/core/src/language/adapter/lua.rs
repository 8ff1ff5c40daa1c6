//! Errors of the reference implementation of Lua.

use super::last_lines;
use crate::guest_error::{ErrorFrame, GuestError};

/// Reads the last line that begins with the interpreter's name, as in `lua: a.lua:3: no`, and the stack below it.
pub(super) fn parse_error(stderr: &str) -> Option<GuestError> {
    let lines: Vec<&str> = stderr.trim_end().lines().collect();
    let (begin, message) = lines.iter().enumerate().rev().find_map(|(at, line)| Some((at, message(line)?)))?;
    // An error value that is not a string has no position before it.
    let (line, value) = match position(message) {
        Some((line, value)) => (Some(line), value),
        None => (None, message),
    };
    let more = lines[begin + 1..].iter().take_while(|line| **line != "stack traceback:");
    let value = std::iter::once(value).chain(more.copied()).collect::<Vec<_>>().join("\n");
    Some(GuestError {
        name: "Error".to_owned(),
        value,
        traceback: last_lines(&lines[begin..]),
        line,
        frames: Vec::new(),
    })
}

pub(super) fn missing_module(error: &GuestError) -> Option<String> {
    let (name, rest) = error.value.strip_prefix("module '")?.split_once('\'')?;
    rest.starts_with(" not found").then(|| name.to_owned())
}

/// Reads lines like `\t/work/a.lua:3: in function 'f'` below the start of the stack, of which the innermost call is the first.
pub(super) fn frames(traceback: &[String]) -> Vec<ErrorFrame> {
    let start = traceback.iter().rposition(|line| line == "stack traceback:").map_or(traceback.len(), |at| at + 1);
    let frame = |line: &String| {
        let (place, function) = line.strip_prefix('\t')?.split_once(": in ")?;
        let (file, line) = place.rsplit_once(':')?;
        // Functions without a name have their place in its stead.
        let function = match function.split_once('\'') {
            Some((_, name)) => Some(name.trim_end_matches('\'').to_owned()),
            None => Some(function.to_owned()).filter(|function| !function.contains('<')),
        };
        Some(ErrorFrame { file: file.to_owned(), line: line.parse().ok()?, column: None, function, code: None })
    };
    traceback[start..].iter().rev().filter_map(frame).collect()
}

/// Returns the text after the interpreter's name, which may be a path and end with a version.
fn message(line: &str) -> Option<&str> {
    let (program, message) = line.split_once(": ")?;
    program.rsplit('/').next()?.starts_with("lua").then_some(message)
}

/// Splits `a.lua:3: no` and `(command line):1: no` into the line and the message.
fn position(message: &str) -> Option<(u32, &str)> {
    let (place, value) = message.split_once(": ")?;
    let (_, line) = place.rsplit_once(':')?;
    Some((line.parse().ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_errors() {
        let parsed = |text: &str| parse_error(text).map(|error| (error.value, error.line));
        let traced = "x\nlua5.4: /work/a.lua:3: no\nmore\nstack traceback:\n\t[C]: in function 'error'\n";
        assert_eq!(parsed(traced), Some(("no\nmore".to_owned(), Some(3))));
        assert_eq!(parsed("lua: (command line):1: no"), Some(("no".to_owned(), Some(1))));
        assert_eq!(parsed("/usr/bin/lua: (error object is a table value)\n").map(|(_, line)| line), Some(None));
        assert_eq!(parsed("all is well\n"), None);
        let missing =
            parse_error("lua: a.lua:1: module 'socket' not found:\n\tno field\nstack traceback:\n\t[C]: in ?");
        assert_eq!(missing.and_then(|error| missing_module(&error)).as_deref(), Some("socket"));
    }
}
