//! Error of package names and specs.

/// Error for a text that is not a package spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not allowed: write NAME, @SCOPE/NAME or NAME@VERSION, with a range such as ^1.2 or a tag")]
pub struct ParseNpmSpecError {
    what: &'static str,
    text: String,
}

impl ParseNpmSpecError {
    pub(super) fn name(text: &str) -> Self {
        Self { what: "package name", text: text.to_owned() }
    }

    pub(super) fn wanted(text: &str) -> Self {
        Self { what: "package version", text: text.to_owned() }
    }
}
