//! The error that ended a program, as its interpreter told it on standard error.
//!
//! A container's interpreter is nobody's we know, so its text is all there is. It can be forged; that would say something
//! wrong about the forger's own job.

use codebox_core::{GuestError, Language};

/// Most lines of a traceback that are kept.
const MOST: usize = 200;

/// Reads the last error that a program's interpreter wrote.
pub(crate) fn read(language: &Language, stderr: &[u8]) -> Option<GuestError> {
    let text = String::from_utf8_lossy(stderr);
    match language {
        Language::Python => python(&text),
        Language::JavaScript | Language::TypeScript => node(&text),
        Language::Command | Language::Named(_) => None,
    }
}

fn python(text: &str) -> Option<GuestError> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = |is: fn(&str) -> bool| lines.iter().rposition(|line| is(line));
    let begin = match last(|line| line == "Traceback (most recent call last):") {
        Some(begin) => begin,
        // A syntax error in the program itself has no traceback before it.
        None => last(|line| line.starts_with("  File \""))?,
    };
    let end = lines[begin..].iter().rposition(|line| head(line).is_some())? + begin;
    let (name, _) = head(lines[end])?;
    let value = lines[end..].join("\n").get(name.len()..).unwrap_or_default().trim_start_matches(": ").to_owned();
    let line = lines[begin..end].iter().filter_map(|line| place(line)).next_back();
    let name = name.rsplit('.').next().unwrap_or(name).to_owned();
    Some(GuestError { name, value, traceback: kept(&lines[begin..]), line })
}

/// The name before the colon of a line that tells an exception.
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

/// The line number in `  File "x", line 3, in y`.
fn place(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("  File \"")?;
    let (_, rest) = rest.rsplit_once("\", line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn node(text: &str) -> Option<GuestError> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let told = |line: &&str| {
        let name = line.strip_prefix("Uncaught ").unwrap_or(line);
        let name = name.split([':', ' ']).next().unwrap_or_default();
        (name.ends_with("Error") || name.ends_with("Exception"))
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let at = lines.iter().position(told)?;
    let head = lines[at].strip_prefix("Uncaught ").unwrap_or(lines[at]);
    let (name, value) = head.split_once(": ").unwrap_or((head, ""));
    let name = name.split(' ').next().unwrap_or(name);
    // `file:3` above the excerpt that Node shows, or the first place of the stack.
    let above = lines[..at].iter().find_map(|line| line.rsplit_once(':')?.1.parse().ok());
    let below =
        || lines[at..].iter().find(|line| line.trim_start().starts_with("at ")).and_then(|line| stack_line(line));
    Some(GuestError {
        name: name.to_owned(),
        value: value.trim_end_matches(" {").to_owned(),
        traceback: kept(&lines[at..]),
        line: above.or_else(below),
    })
}

/// The line number in `    at f (file:3:5)`.
fn stack_line(line: &str) -> Option<u32> {
    let place = line.trim_end_matches(')');
    let (rest, _column) = place.rsplit_once(':')?;
    rest.rsplit_once(':')?.1.parse().ok()
}

fn kept(lines: &[&str]) -> Vec<String> {
    let skip = lines.len().saturating_sub(MOST);
    lines.iter().skip(skip).map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(language: Language, text: &str) -> Option<(String, String, Option<u32>)> {
        read(&language, text.as_bytes()).map(|error| (error.name, error.value, error.line))
    }

    #[test]
    fn pythons_words_are_read() {
        let text = "warning: x\nTraceback (most recent call last):\n  File \"/work/a.py\", line 7, in <module>\n    f()\n  File \"/work/a.py\", line 3, in f\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n";
        assert_eq!(
            told(Language::Python, text),
            Some(("ZeroDivisionError".into(), "division by zero".into(), Some(3)))
        );
        let text = "  File \"/work/a.py\", line 2\n    x = (\n        ^\nSyntaxError: '(' was never closed\n";
        assert_eq!(told(Language::Python, text), Some(("SyntaxError".into(), "'(' was never closed".into(), Some(2))));
        let text = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\njson.decoder.JSONDecodeError: a: b\nmore\n";
        assert_eq!(told(Language::Python, text), Some(("JSONDecodeError".into(), "a: b\nmore".into(), Some(1))));
        assert_eq!(told(Language::Python, "just words\n"), None);
    }

    #[test]
    fn nodes_words_are_read() {
        let text = "/work/a.js:2\nthrow new TypeError('no')\n^\n\nTypeError: no\n    at Object.<anonymous> (/work/a.js:2:7)\n\nNode.js v22\n";
        assert_eq!(told(Language::JavaScript, text), Some(("TypeError".into(), "no".into(), Some(2))));
        assert_eq!(told(Language::JavaScript, "all is well\n"), None);
    }
}
