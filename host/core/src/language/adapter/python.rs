//! Errors and source encodings of Python.

use super::{last_lines, quoted};
use crate::guest_error::{ErrorFrame, GuestError};

/// Start of the description of a missing function of the library.
pub(super) const LIBRARY_PREFIX: &str = "Python's ";

/// Modules of the library that every interpreter on an operating system has and the one in WebAssembly lacks.
pub(super) const NATIVE_MODULES: [&str; 17] = [
    "ssl",
    "_ssl",
    "fcntl",
    "resource",
    "pwd",
    "grp",
    "curses",
    "_curses",
    "readline",
    "sqlite3",
    "dbm",
    "dbm.gnu",
    "mmap",
    "syslog",
    "multiprocessing",
    "_multiprocessing",
    "_posixshmem",
];

/// Reads the last traceback, or the syntax error in the program itself, which has no traceback before it.
pub(super) fn parse_error(text: &str) -> Option<GuestError> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = |is: fn(&str) -> bool| lines.iter().rposition(|line| is(line));
    let begin = match last(|line| line == "Traceback (most recent call last):") {
        Some(begin) => begin,
        // A syntax error in the program itself has no traceback before it.
        None => last(|line| line.starts_with("  File \""))?,
    };
    // The message may continue on further lines. Frames are indented.
    let is_end = |line: &&str| !line.starts_with(' ') && head(line).is_some();
    let end = lines[begin + 1..].iter().position(is_end)? + begin + 1;
    let (name, _) = head(lines[end])?;
    let value = lines[end..].join("\n").get(name.len()..).unwrap_or_default().trim_start_matches(": ").to_owned();
    let line = lines[begin..end].iter().filter_map(|line| frame_line(line)).next_back();
    let name = name.rsplit('.').next().unwrap_or(name).to_owned();
    Some(GuestError { name, value, traceback: last_lines(&lines[begin..]), line, frames: Vec::new() })
}

/// Start of a traceback, and of one of an exception group.
const HEADERS: [&str; 2] =
    ["Traceback (most recent call last):", "  + Exception Group Traceback (most recent call last):"];

/// Lines between the traceback of an exception and that of the one that it led to.
const LINKS: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

/// Reads lines like `  File "/work/a.py", line 3, in f`, each with the line of code below it, of the last exception. A message
/// may contain such lines as well: those below the exception's own line are not read.
pub(super) fn frames(traceback: &[String]) -> Vec<ErrorFrame> {
    let mut lines = traceback;
    while let Some(link) = lines.windows(3).position(|lines| {
        let [link, blank, header] = lines else { return false };
        LINKS.contains(&link.as_str()) && blank.is_empty() && HEADERS.contains(&header.as_str())
    }) {
        lines = &lines[link + 2..];
    }
    // A syntax error in the program itself has no traceback before it.
    let start = usize::from(lines.first().is_some_and(|line| HEADERS.contains(&line.as_str())));
    let mut frames: Vec<ErrorFrame> = Vec::new();
    // The code of a call is on the first line below its place; marks of columns and further lines follow.
    let mut may_have_code = false;
    for line in &lines[start..] {
        let line = line.strip_prefix("  | ").unwrap_or(line);
        if !line.starts_with(' ') {
            break;
        }
        if let Some(frame) = line.strip_prefix("  File \"").and_then(frame) {
            frames.push(frame);
            may_have_code = true;
        } else if may_have_code {
            may_have_code = false;
            if let (Some(code), Some(frame)) = (line.strip_prefix("    "), frames.last_mut()) {
                frame.code = Some(code.to_owned());
            }
        }
    }
    frames
}

/// Parses the rest of a line after the quotation mark in front of the file.
fn frame(text: &str) -> Option<ErrorFrame> {
    let (file, place) = text.rsplit_once("\", line ")?;
    let (line, function) = match place.split_once(", in ") {
        Some((line, function)) => (line, Some(function.to_owned())),
        None => (place, None),
    };
    Some(ErrorFrame { file: file.to_owned(), line: line.parse().ok()?, column: None, function, code: None })
}

pub(super) fn missing_module(error: &GuestError) -> Option<String> {
    let name = (error.name == "ModuleNotFoundError").then(|| quoted(&error.value, "No module named '"))??;
    name.split('.').next().map(str::to_owned)
}

/// Splits the line of an exception into the name before the colon and the message.
fn head(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(": ").unwrap_or((line, ""));
    let is_name = |name: &str| {
        name.split('.').all(|part| {
            part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '<' | '>'))
        })
    };
    (!name.is_empty() && is_name(name)).then_some((name, rest))
}

/// Returns the line number in `  File "x", line 3, in y`.
fn frame_line(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("  File \"")?;
    let (_, rest) = rest.rsplit_once("\", line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns the encoding that a comment in one of the first two lines declares.
///
/// As in Python, the second line counts only if the first is empty or a comment.
pub(super) fn declared_encoding(text: &[u8]) -> Option<String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let first = lines.next()?;
    in_line(first).or_else(|| {
        let blank = matches!(after_blanks(first), [] | [b'#', ..]);
        // `\r\n` splits into a line and an empty one.
        let crlf = text.get(first.len()..first.len() + 2) == Some(b"\r\n");
        let second = if crlf { lines.nth(1)? } else { lines.next()? };
        if blank { in_line(second) } else { None }
    })
}

/// Returns true if a declared encoding is a spelling of UTF-8.
pub(super) fn is_utf8(encoding: &str) -> bool {
    let name = encoding.to_ascii_lowercase().replace(['_', '.'], "-");
    matches!(name.as_str(), "utf-8" | "utf8" | "utf-8-sig" | "u8" | "utf") || name.starts_with("utf-8-")
}

/// Returns the name in `# … coding: NAME` or `# … coding=NAME`.
fn in_line(line: &[u8]) -> Option<String> {
    let comment = after_blanks(line).strip_prefix(b"#")?;
    let places = comment.windows(7).enumerate();
    let mut after = places.filter_map(|(at, word)| match word {
        b"coding:" | b"coding=" => Some(&comment[at + 7..]),
        _ => None,
    });
    after.find_map(|rest| {
        let skip = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let name: String = rest[skip..]
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
            .collect();
        (!name.is_empty()).then_some(name)
    })
}

fn after_blanks(line: &[u8]) -> &[u8] {
    let skip = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0c')).count();
    &line[skip..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_declarations_where_python_does() {
        for (text, encoding) in [
            ("# -*- coding: latin-1 -*-\nx", Some("latin-1")),
            ("#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n", Some("cp1252")),
            ("#!/usr/bin/python\r\n#coding=koi8-r\r\n", Some("koi8-r")),
            ("\n# coding: ascii", Some("ascii")),
            ("\u{feff}# coding: utf-8\n", Some("utf-8")),
            ("x = 1\n# coding: latin-1\n", None),
            ("\n\n# coding: latin-1\n", None),
            ("print('coding: latin-1')\n", None),
            ("# coding:\n", None),
            ("", None),
        ] {
            assert_eq!(declared_encoding(text.as_bytes()).as_deref(), encoding, "{text:?}");
        }
        assert!(is_utf8("UTF_8") && is_utf8("utf8") && !is_utf8("latin-1"));
    }
}
