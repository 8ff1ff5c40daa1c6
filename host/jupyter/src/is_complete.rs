//! Decision if a text is complete, without a parser: a text that is not complete gets another line, and one that looks complete and is not
//! has a syntax error.

/// Words with which a compound statement of Python begins. `match` and `else` also begin other lines; their blocks have lines of their own.
const COMPOUND: [&str; 8] = ["if", "for", "while", "try", "with", "def", "class", "async"];

/// Words of a script after which a slash begins a regular expression.
const BEFORE_VALUE: [&str; 11] =
    ["return", "typeof", "case", "in", "of", "delete", "void", "instanceof", "throw", "await", "yield"];

/// Returns true if a text can run: its brackets and strings are closed, and a block of Python ends with an empty line.
#[must_use]
pub fn is_complete(text: &str, is_python: bool) -> bool {
    let state = if is_python { scan_python(text) } else { scan_script(text) };
    // Two empty lines end a text whose brackets look open, in case that they are not.
    let is_forced = text.ends_with("\n\n");
    let is_closed = (state.depth <= 0 || is_forced) && !state.is_open;
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
    // True in a line that begins a compound statement, whose block may be in the same line.
    let mut is_compound = false;
    while let Some(c) = rest.chars().next() {
        let before = rest;
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '"' | '\'' => {
                let mark = if rest.starts_with("\"\"\"") || rest.starts_with("'''") { &rest[..3] } else { &rest[..1] };
                match end_of_string(&rest[mark.len()..], mark, mark.len() == 3) {
                    Some(end) => &rest[mark.len()..][end..],
                    None => return unclosed(mark.len() == 3),
                }
            }
            '#' => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '\n' => {
                state.has_block |= last == ':' && state.depth <= 0;
                (last, is_line_start) = (' ', state.depth <= 0);
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
        if is_line_start && !c.is_whitespace() {
            let word = before.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            is_compound = COMPOUND.contains(&word);
            state.has_block |= c == '@';
        }
        state.has_block |= is_compound && c == ':' && state.depth <= 0;
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
    // For each expression of a template, the number of brackets that were open before it.
    let mut templates: Vec<i64> = Vec::new();
    // The text so far, without strings, comments and regular expressions.
    let mut plain = String::new();
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '"' | '\'' => match end_of_string(next, &rest[..1], false) {
                Some(end) => &next[end..],
                None => return unclosed(false),
            },
            '/' if next.starts_with('/') => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '/' if next.starts_with('*') => match next.find("*/") {
                Some(end) => &next[end + 2..],
                None => return unclosed(true),
            },
            '/' if begins_value(&plain) => match end_of_regex(next) {
                Some(end) => &next[end..],
                None => return unclosed(false),
            },
            '`' | '}' if c == '`' || templates.last() == Some(&state.depth) => {
                if c == '}' {
                    templates.pop();
                }
                match end_of_template(next) {
                    Some(end) => {
                        if next[..end].ends_with("${") {
                            templates.push(state.depth);
                        }
                        &next[end..]
                    }
                    None => return unclosed(true),
                }
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
        // A string, a template and a regular expression are values, and a comment is nothing.
        match c {
            '"' | '\'' | '`' => plain.push('0'),
            '/' if rest.len() < next.len() && !next.starts_with(['/', '*']) => plain.push('0'),
            '/' if next.starts_with(['/', '*']) => {}
            c => plain.push(c),
        }
    }
    state.is_open = !templates.is_empty();
    state
}

/// Returns the state of a text that ends in a string or comment. One of a single line is an error, which the text shows when it runs.
fn unclosed(has_lines: bool) -> State {
    State { is_open: has_lines, ..State::default() }
}

/// Returns true if a value begins after this text of a script, and not an operator.
fn begins_value(before: &str) -> bool {
    let before = before.trim_end();
    match before.chars().next_back() {
        None => true,
        Some(c) if c.is_alphanumeric() || matches!(c, '_' | '$') => {
            let word =
                before.rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$')).next().unwrap_or_default();
            BEFORE_VALUE.contains(&word)
        }
        Some(c) => !matches!(c, ')' | ']' | '}'),
    }
}

/// Returns the length of the rest of a regular expression with its end; `None` if it has no end in its line.
fn end_of_regex(text: &str) -> Option<usize> {
    let mut is_class = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '/' if !is_class => return Some(at + 1),
            '[' => is_class = true,
            ']' => is_class = false,
            '\\' => drop(chars.next()),
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// Returns the length of a part of a template up to its end, or to the beginning of an expression.
fn end_of_template(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '`' => return Some(at + 1),
            '$' if text[at..].starts_with("${") => return Some(at + 2),
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
    None
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
            "print(\"hello)",
            "try: x\nexcept: y\n",
            "x = [\n  if_ : 1\n]",
            "iffy: int = 3",
            "x if y else z",
            "f(1,\n\n",
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
            "try: x",
            "if a: b",
            "'''a\n\n",
        ] {
            assert!(!is_complete(text, true), "{text:?}");
        }
    }

    #[test]
    fn scripts_end_when_everything_is_closed() {
        for text in [
            "1",
            "f(')')",
            "`a${1}`",
            "x = {}",
            "// (",
            "/* ( */ 1",
            "if (x) { y }",
            "'\\'('",
            "'unclosed",
            "a: 1",
            "'a(b'.replace(/\\(/g, '')",
            "'it'.match(/[\"'/]/)",
            "return /[(]/",
            "1 / (2) / 3",
            "`${[1].map((x) => `(${x}`)}`",
            "`${{ a: 1 }}`",
            "f('a",
            "f(1,\n\n",
        ] {
            assert!(is_complete(text, false), "{text:?}");
        }
        for text in ["{", "f(", "`a\nb", "/* a", "function f() {\n", "[1,\n", "`${1", "`${`a`", "(a) / (b"] {
            assert!(!is_complete(text, false), "{text:?}");
        }
    }
}
