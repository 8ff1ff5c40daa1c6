//! Edits of a text that preserve its lines.

use std::collections::HashMap;

/// Replacements of ranges of a text, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Edits {
    all: Vec<Edit>,
}

#[derive(Debug)]
struct Edit {
    start: usize,
    end: usize,
    replacement: String,
}

impl Edits {
    /// Inserts a text. Insertions at the same offset appear in the order of the calls.
    pub(super) fn insert(&mut self, at: u32, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    /// Replaces a range. Line ends in the range are preserved, and edits that begin inside of it are dropped.
    pub(super) fn replace(&mut self, start: u32, end: u32, text: impl Into<String>) {
        self.all.push(Edit { start: start as usize, end: end as usize, replacement: text.into() });
    }

    /// Applies the edits and returns the edited text with the mapping of its columns.
    pub(super) fn apply(mut self, text: &str) -> (String, Columns) {
        self.all.sort_by_key(|edit| edit.start);
        let mut copy = Copy {
            text,
            at: 0,
            out: String::with_capacity(text.len() * 2),
            line: 0,
            old: 0,
            new: 0,
            columns: Columns::default(),
        };
        for edit in self.all {
            if edit.start < copy.at {
                continue;
            }
            copy.copy_until(edit.start);
            copy.insert(&edit.replacement);
            copy.skip(edit.end.max(edit.start));
        }
        copy.copy_until(text.len());
        (copy.out, copy.columns)
    }
}

/// The state of applying edits: positions in the original and in the edited text.
struct Copy<'t> {
    text: &'t str,
    at: usize,
    out: String,
    line: u32,
    /// The column in the original text, in UTF-16 code units.
    old: u32,
    /// The column in the edited text, in UTF-16 code units.
    new: u32,
    columns: Columns,
}

impl Copy<'_> {
    fn copy_until(&mut self, end: usize) {
        let copied = &self.text[self.at..end];
        self.out.push_str(copied);
        for (index, line) in copied.split('\n').enumerate() {
            if index > 0 {
                self.line += 1;
                (self.old, self.new) = (0, 0);
            }
            let width = utf16(line);
            (self.old, self.new) = (self.old + width, self.new + width);
        }
        self.at = end;
    }

    fn insert(&mut self, text: &str) {
        self.out.push_str(text);
        self.columns.add(self.line, Shift { new: self.new, old: self.old, copied: false });
        self.new += utf16(text);
    }

    fn skip(&mut self, end: usize) {
        for (index, line) in self.text[self.at..end].split('\n').enumerate() {
            if index > 0 {
                self.out.push('\n');
                self.line += 1;
                (self.old, self.new) = (0, 0);
            }
            self.old += utf16(line);
        }
        self.at = end;
        self.columns.add(self.line, Shift { new: self.new, old: self.old, copied: true });
    }
}

fn utf16(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}

/// Mapping from columns of the edited text to columns of the original. Both count UTF-16 code units from 0.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    lines: HashMap<u32, Vec<Shift>>,
}

/// A column from which on the columns of the two texts differ by a constant.
#[derive(Debug, Clone, Copy)]
struct Shift {
    new: u32,
    old: u32,
    /// False for inserted text, all of which maps to one column of the original.
    copied: bool,
}

impl Columns {
    fn add(&mut self, line: u32, shift: Shift) {
        self.lines.entry(line).or_default().push(shift);
    }

    /// Returns the original column of a column in the edited text.
    pub(crate) fn original(&self, line: u32, column: u32) -> u32 {
        let Some(shifts) = self.lines.get(&line) else { return column };
        let after = shifts.partition_point(|shift| shift.new <= column);
        match after.checked_sub(1).and_then(|index| shifts.get(index)) {
            Some(shift) if shift.copied => shift.old + (column - shift.new),
            Some(shift) => shift.old,
            None => column,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_lines_and_maps_columns() {
        let text = "let ü = a;\nlet b\n  = c + d;\n";
        let mut edits = Edits::default();
        edits.insert(9, "_N.");
        edits.replace(12, 22, "x = ");
        edits.insert(14, "dropped");
        let (edited, columns) = edits.apply(text);
        assert_eq!(edited, "let ü = _N.a;\nx = \nc + d;\n");
        for ((line, column), original) in
            [((0, 4), 4), ((0, 8), 8), ((0, 10), 8), ((0, 11), 8), ((0, 12), 9), ((2, 0), 4), ((2, 4), 8), ((3, 0), 0)]
        {
            assert_eq!(columns.original(line, column), original, "{line}:{column}");
        }
    }
}
