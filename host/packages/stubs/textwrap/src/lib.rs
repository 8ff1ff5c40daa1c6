//! The part of `textwrap` that uv and oxc name. A line is broken at spaces alone.

/// Widths on a terminal.
pub mod core {
    use unicode_width::UnicodeWidthStr as _;

    /// Returns the number of columns of a text.
    pub fn display_width(text: &str) -> usize {
        text.width()
    }
}

/// Options of [`fill`].
#[derive(Clone)]
pub struct Options<'a> {
    /// Columns of a line.
    pub width: usize,
    /// Start of the first line.
    pub initial_indent: &'a str,
    /// Start of the other lines.
    pub subsequent_indent: &'a str,
}

/// Places at which a line may be broken.
pub enum WordSeparator {
    /// Spaces.
    AsciiSpace,
}

/// Places at which a word may be broken.
pub enum WordSplitter {
    /// No place.
    NoHyphenation,
}

impl<'a> Options<'a> {
    /// Returns options for lines of this many columns.
    pub fn new(width: usize) -> Self {
        Self { width, initial_indent: "", subsequent_indent: "" }
    }

    /// Sets the start of the first line.
    pub fn initial_indent(self, initial_indent: &'a str) -> Self {
        Self { initial_indent, ..self }
    }

    /// Sets the start of the other lines.
    pub fn subsequent_indent(self, subsequent_indent: &'a str) -> Self {
        Self { subsequent_indent, ..self }
    }

    /// Has no effect: words are never broken.
    pub fn break_words(self, _: bool) -> Self {
        self
    }

    /// Has no effect: lines are broken at spaces.
    pub fn word_separator(self, _: WordSeparator) -> Self {
        self
    }

    /// Has no effect: words are never broken.
    pub fn word_splitter(self, _: WordSplitter) -> Self {
        self
    }
}

/// Breaks each line into lines that fit, as far as its words do.
pub fn fill(text: &str, options: Options<'_>) -> String {
    let mut filled = String::new();
    for (number, line) in text.split('\n').enumerate() {
        let indent = if number == 0 { options.initial_indent } else { options.subsequent_indent };
        if number > 0 {
            filled.push('\n');
        }
        fill_line(line, indent, &options, &mut filled);
    }
    filled
}

fn fill_line(line: &str, indent: &str, options: &Options<'_>, filled: &mut String) {
    filled.push_str(indent);
    let mut column = core::display_width(indent);
    let mut is_start = true;
    for word in line.split(' ') {
        let length = core::display_width(word);
        if !is_start && column + 1 + length > options.width {
            filled.truncate(filled.trim_end_matches(' ').len());
            filled.push('\n');
            filled.push_str(options.subsequent_indent);
            column = core::display_width(options.subsequent_indent);
        } else if !is_start {
            filled.push(' ');
            column += 1;
        }
        filled.push_str(word);
        column += length;
        is_start = false;
    }
}

/// Adds a prefix to each line that has text.
pub fn indent(text: &str, prefix: &str) -> String {
    let line = |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("{prefix}{line}") };
    text.split_inclusive('\n').map(line).collect()
}

/// Removes the spaces and tabs that all lines with text begin with.
pub fn dedent(text: &str) -> String {
    let lead = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let with_text = || text.lines().filter(|line| !line.trim().is_empty());
    let first = with_text().next().map_or("", |line| &line[..lead(line)]);
    let is_same = |line: &str| line.bytes().zip(first.bytes()).take_while(|(a, b)| a == b).count();
    let common = with_text().map(|line| is_same(&line[..lead(line)])).min().unwrap_or(0);
    let line = |line: &str| if line.trim().is_empty() { line.trim_matches([' ', '\t']).to_owned() } else { line[common..].to_owned() };
    text.split_inclusive('\n').map(line).collect()
}
