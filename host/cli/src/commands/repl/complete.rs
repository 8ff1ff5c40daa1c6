//! Decision if a text is complete, without a parser: a text that is not complete gets another line, and one that looks complete and is not
//! has a syntax error.

/// Returns true if a text can run: its brackets and strings are closed, and a block of Python ends with an empty line.
pub(super) fn is_complete(text: &str, is_python: bool) -> bool {
    let state = if is_python { scan_python(text) } else { scan_script(text) };
    let is_closed = state.depth <= 0 && !state.is_open;
    is_closed
        && (!state.has_block || text.ends_with('\n') || text.lines().last().is_some_and(|line| line.trim().is_empty()))
}

/// State at the end of a text.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    /// Number of open brackets.
    depth: i64,
    /// True inside of a string or comment of several lines, or after a backslash at the end of a line.
    is_open: bool,
    /// True if the text has a compound statement, or a decorator.
    has_block: bool,
}

fn scan_python(text: &str) -> State {
    let mut state = State::default();
    let mut rest = text;
    // The last character of a line outside of strings and comments.
    let mut last = ' ';
    let mut is_line_start = true;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '"' | '\'' => {
                let mark = if rest.starts_with("\"\"\"") || rest.starts_with("'''") { &rest[..3] } else { &rest[..1] };
                match end_of_string(&rest[mark.len()..], mark, mark.len() == 3) {
                    Some(end) => &rest[mark.len()..][end..],
                    None => {
                        // A string of one line that is not closed is an error.
                        state.is_open = mark.len() == 3;
                        return state;
                    }
                }
            }
            '#' => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '\n' => {
                state.has_block |= last == ':' && state.depth <= 0;
                (last, is_line_start) = (' ', true);
                next
            }
            '\\' if next.is_empty() || next == "\n" => {
                state.is_open = true;
                return state;
            }
            '(' | '[' | '{' => {
                state.depth += 1;
                next
            }
            ')' | ']' | '}' => {
                state.depth -= 1;
                next
            }
            _ => next,
        };
        if c == '@' && is_line_start {
            state.has_block = true;
        }
        if !matches!(c, '\n' | '#') && !c.is_whitespace() {
            (last, is_line_start) = (c, false);
        }
    }
    state.has_block |= last == ':' && state.depth <= 0;
    state
}

fn scan_script(text: &str) -> State {
    let mut state = State::default();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '"' | '\'' | '`' => match end_of_string(next, &rest[..1], c == '`') {
                Some(end) => &next[end..],
                None => {
                    state.is_open = c == '`';
                    return state;
                }
            },
            '/' if next.starts_with('/') => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '/' if next.starts_with('*') => match next.find("*/") {
                Some(end) => &next[end + 2..],
                None => {
                    state.is_open = true;
                    return state;
                }
            },
            '(' | '[' | '{' => {
                state.depth += 1;
                next
            }
            ')' | ']' | '}' => {
                state.depth -= 1;
                next
            }
            _ => next,
        };
    }
    state
}

/// Returns the length of the rest of a string with its end; `None` if it has no end, or none in its line if it must be there.
fn end_of_string(text: &str, mark: &str, has_lines: bool) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if text[at..].starts_with(mark) {
            return Some(at + mark.len());
        }
        match c {
            '\\' => drop(chars.next()),
            '\n' if !has_lines => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn blocks_of_python_end_with_an_empty_line() {
        for text in [
            "1",
            "x = [1,\n2]",
            "'a:'",
            "x = {'a': 1}",
            "if x: y\n",
            "def f():\n    pass\n",
            "# a:",
            "f('(')",
            "'''a\nb'''",
            "a[1:",
            "lambda: 1",
            "'unclosed",
            "x = 1 # (",
            ")",
            "'\\'('",
        ] {
            assert_eq!(is_complete(text, true), text != "a[1:", "{text:?}");
        }
        for text in [
            "(",
            "f(1,",
            "[\n1",
            "'''a\nb",
            "\"\"\"",
            "if x:",
            "def f():\n    pass",
            "for a in b:\n    c\n    d",
            "@a",
            "x = 1 + \\",
            "class A: # a",
            "if x:\n    f(':')",
        ] {
            assert!(!is_complete(text, true), "{text:?}");
        }
    }

    #[test]
    fn scripts_end_when_everything_is_closed() {
        for text in
            ["1", "f(')')", "`a${1}`", "x = {}", "// (", "/* ( */ 1", "if (x) { y }", "'\\'('", "'unclosed", "a: 1"]
        {
            assert!(is_complete(text, false), "{text:?}");
        }
        for text in ["{", "f(", "`a\nb", "/* a", "function f() {\n", "[1,\n"] {
            assert!(!is_complete(text, false), "{text:?}");
        }
    }
}
