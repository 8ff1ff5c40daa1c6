//! The part of `uv-shell` that `uv-install-wheel` names.

use std::borrow::Cow;

/// Text in which each single quote ends a quoted word of a shell, is quoted itself, and begins the next.
pub fn escape_posix_for_single_quotes(text: &str) -> Cow<'_, str> {
    if text.contains('\'') { Cow::Owned(text.replace('\'', r#"'"'"'"#)) } else { Cow::Borrowed(text) }
}
