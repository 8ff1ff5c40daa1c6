//! Positions in a text.

/// A position in a text, counted from 1 as in editors. The column counts UTF-16 code units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Location {
    /// Returns the position of a byte of `text`, or the end of the text if the offset is too large.
    pub(crate) fn from_text(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
        Self {
            line: count(before[..start].bytes().filter(|byte| *byte == b'\n').count()),
            column: count(before[start..].encode_utf16().count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_and_columns_from_one() {
        let text = "ab\nü😀c\n";
        for (offset, line, column) in [(0, 1, 1), (2, 1, 3), (3, 2, 1), (5, 2, 2), (9, 2, 4), (99, 3, 1)] {
            assert_eq!(Location::from_text(text, offset), Location { line, column }, "{offset}");
        }
    }
}
