//! The error that ended a program, from the text that its interpreter wrote to standard error.
//!
//! The interpreter in a container is not under our control, so its text is the only source. A job can forge the text,
//! and would only misreport itself.

use codebox_core::{GuestError, Language};

/// Most lines of a traceback that are kept.
const MAX_TRACEBACK_LINES: usize = 200;

/// Length limit for the name of a missing module, in bytes.
const MAX_MODULE_NAME_SIZE: usize = 256;

/// Reads the last error that a program's interpreter wrote.
pub(crate) fn parse_error(language: &Language, stderr: &[u8]) -> Option<GuestError> {
    let text = String::from_utf8_lossy(stderr);
    match language {
        Language::Python => python(&text),
        Language::JavaScript | Language::TypeScript => node(&text),
        Language::Command | Language::Named(_) => None,
    }
}

/// Returns the module or package that an interpreter did not find, if that error ended the program.
///
/// A file that the program names by its path does not count as a module.
pub(crate) fn missing_module(language: &Language, error: &GuestError) -> Option<String> {
    let quoted = |text: &str, before: &str| {
        let (name, _) = text.strip_prefix(before)?.split_once('\'')?;
        Some(name.to_owned())
    };
    let name = match language {
        Language::Python if error.name == "ModuleNotFoundError" => {
            quoted(&error.value, "No module named '")?.split('.').next().map(str::to_owned)
        }
        Language::JavaScript | Language::TypeScript => ["Cannot find module '", "Cannot find package '"]
            .iter()
            .find_map(|before| quoted(&error.value, before))
            .filter(|name| !name.starts_with(['.', '/']) && !name.starts_with("file:")),
        Language::Python | Language::Command | Language::Named(_) => None,
    };
    name.filter(|name| !name.is_empty() && name.len() <= MAX_MODULE_NAME_SIZE)
}

fn python(text: &str) -> Option<GuestError> {
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
    Some(GuestError { name, value, traceback: last_lines(&lines[begin..]), line })
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

fn node(text: &str) -> Option<GuestError> {
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

fn last_lines(lines: &[&str]) -> Vec<String> {
    let skip = lines.len().saturating_sub(MAX_TRACEBACK_LINES);
    lines.iter().skip(skip).map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_missing_module() {
        let module = |language: Language, text: &str| {
            let error = parse_error(&language, text.as_bytes()).expect("an error");
            missing_module(&language, &error)
        };
        let python = |last: &str| {
            module(
                Language::Python,
                &format!("Traceback (most recent call last):\n  File \"a\", line 1, in b\n{last}\n"),
            )
        };
        assert_eq!(python("ModuleNotFoundError: No module named 'pandas'").as_deref(), Some("pandas"));
        assert_eq!(python("ModuleNotFoundError: No module named 'a.b'; 'a' is not a package").as_deref(), Some("a"));
        assert_eq!(python("ImportError: No module named 'pandas'"), None);
        assert_eq!(python("ValueError: No module named 'pandas'"), None);
        let node = |head: &str| {
            module(Language::JavaScript, &format!("node:internal/m:1\n  throw e;\n\n{head}\n    at x (node:y:1:2)\n"))
        };
        assert_eq!(node("Error: Cannot find module 'zod'\nRequire stack:\n- /work/a.js").as_deref(), Some("zod"));
        let esm = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from /work/a.mjs";
        assert_eq!(node(esm).as_deref(), Some("@a/b"));
        assert_eq!(node("Error: Cannot find module '/work/b.js'"), None);
        assert_eq!(node("Error: Cannot find module './b'"), None);
    }

    fn parsed(language: Language, text: &str) -> Option<(String, String, Option<u32>)> {
        parse_error(&language, text.as_bytes()).map(|error| (error.name, error.value, error.line))
    }

    #[test]
    fn parses_python_tracebacks() {
        let text = "warning: x\nTraceback (most recent call last):\n  File \"/work/a.py\", line 7, in <module>\n    f()\n  File \"/work/a.py\", line 3, in f\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n";
        assert_eq!(
            parsed(Language::Python, text),
            Some(("ZeroDivisionError".into(), "division by zero".into(), Some(3)))
        );
        let text = "  File \"/work/a.py\", line 2\n    x = (\n        ^\nSyntaxError: '(' was never closed\n";
        assert_eq!(
            parsed(Language::Python, text),
            Some(("SyntaxError".into(), "'(' was never closed".into(), Some(2)))
        );
        let text = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\njson.decoder.JSONDecodeError: a: b\nmore\n";
        assert_eq!(parsed(Language::Python, text), Some(("JSONDecodeError".into(), "a: b\nmore".into(), Some(1))));
        assert_eq!(parsed(Language::Python, "just words\n"), None);
    }

    #[test]
    fn parses_node_errors() {
        let text = "/work/a.js:2\nthrow new TypeError('no')\n^\n\nTypeError: no\n    at Object.<anonymous> (/work/a.js:2:7)\n\nNode.js v22\n";
        assert_eq!(parsed(Language::JavaScript, text), Some(("TypeError".into(), "no".into(), Some(2))));
        assert_eq!(parsed(Language::JavaScript, "all is well\n"), None);
        let text =
            "/work/a.js:4\nthrow new Own('x')\n^\n\nOwn: x\n    at node:internal/f:7:1\n    at g (/work/a.js:4:7)\n";
        assert_eq!(parsed(Language::JavaScript, text), Some(("Own".into(), "x".into(), Some(4))));
        let text = "node:assert:77\n  throw e\n  ^\n\nAssertionError [ERR_ASSERTION]: x\n    at [eval]:1:18 {\n  code: 'X'\n}\n";
        assert_eq!(parsed(Language::JavaScript, text), Some(("AssertionError".into(), "x".into(), Some(1))));
    }
}
