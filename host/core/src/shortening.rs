//! Shortening of output for readers with little space.

use std::borrow::Cow;

/// Policy by which text is shortened for a reader with little space, such as a language model: first to a number of bytes, then to a number of
/// lines. The result depends on the text alone.
///
/// A text that is shortened ends with [`MARK`](Self::MARK), which the numbers do not include. It is never cut inside a character.
///
/// ```
/// use codebox_core::Shortening;
/// let policy = Shortening { bytes: 10, lines: 2 };
/// assert_eq!(policy.apply("1\n2\n"), "1\n2\n");
/// assert_eq!(policy.apply("1\n2\n3\n"), "1\n2\n...[truncated]");
/// assert_eq!(policy.apply("äöüäöüäöü"), "äöüäö...[truncated]");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortening {
    /// Maximum number of bytes.
    pub bytes: usize,
    /// Maximum number of lines.
    pub lines: usize,
}

impl Default for Shortening {
    /// Returns the policy of 4,000 bytes and 200 lines.
    fn default() -> Self {
        Self { bytes: 4_000, lines: 200 }
    }
}

impl Shortening {
    /// Text at the end of a shortened text.
    pub const MARK: &'static str = "...[truncated]";

    /// Shortens a text.
    #[must_use]
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let kept = self.kept(text);
        if kept.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{kept}{}", Self::MARK)) }
    }

    /// Returns the part of a text that is kept.
    fn kept<'t>(&self, text: &'t str) -> &'t str {
        let text = &text[..text.floor_char_boundary(self.bytes)];
        let end = match self.lines {
            0 => Some(0),
            lines => text.match_indices('\n').nth(lines - 1).map(|(at, _)| at + 1),
        };
        end.map_or(text, |end| &text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_before_lines() {
        let policy = |bytes, lines| Shortening { bytes, lines };
        assert_eq!(policy(4, 1).apply("a\nb\nc"), "a\n...[truncated]");
        assert_eq!(policy(1, 9).apply("a\nb\nc"), "a...[truncated]");
        assert_eq!(policy(5, 3).apply("a\nb\nc"), "a\nb\nc");
        assert_eq!(policy(4, 2).apply("a\nb\n"), "a\nb\n");
        assert_eq!(policy(0, 2).apply(""), "");
        assert_eq!(policy(0, 2).apply("a"), "...[truncated]");
        assert_eq!(policy(9, 0).apply("a"), "...[truncated]");
    }

    #[test]
    fn characters_are_kept_whole() {
        let text = "aä€😀".repeat(3);
        for bytes in 0..=text.len() {
            let kept = Shortening { bytes, lines: 9 }.apply(&text).into_owned();
            let kept = kept.strip_suffix(Shortening::MARK).unwrap_or(&kept);
            assert!(text.starts_with(kept) && bytes - kept.len() < 4, "{bytes}: {kept}");
        }
    }
}
