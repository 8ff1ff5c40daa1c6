use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::kind::{
    MappedPath, PathError, posix_component_fault, posix_fault, posix_rest_below, sealed, with_posix_rest,
};
use super::windows;

/// Syntax rules of a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Style {
    /// Separator `/`; names compare byte by byte.
    Unix,
    /// Separators `\` and `/`; drives and shares are roots; names compare without regard to case.
    Windows,
}

impl Style {
    /// Returns the style of the current machine.
    #[must_use]
    pub const fn native() -> Self {
        if cfg!(windows) { Self::Windows } else { Self::Unix }
    }
}

/// Absolute, normalised path on the host: one spelling per place, without `.`, `..` or empty components.
///
/// `.` and repeated separators are removed. `..` is rejected, because its meaning depends on symbolic links, which only
/// the file system knows. Make a path absolute and free of symbolic links before converting it to a `HostPath`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPath {
    style: Style,
    text: String,
    /// Length in bytes of the root at the start of `text`: `/`, `C:\` or `\\server\share\`.
    root: usize,
}

impl HostPath {
    /// Parses a path by the rules of `style`.
    ///
    /// # Errors
    /// Returns an error if the path is not absolute (which for Windows includes `C:a`, `\a` and `/c/a`), contains `..`,
    /// or contains an invalid name.
    pub fn new(style: Style, text: &str) -> Result<Self, PathError> {
        let fault = |rule| PathError { kind: "host", text: text.to_owned(), rule };
        match style {
            Style::Unix => Self::parse_unix(text).map_err(fault),
            Style::Windows => Self::parse_windows(text).map_err(fault),
        }
    }

    /// Parses a Unix path.
    ///
    /// # Errors
    /// Returns an error as [`HostPath::new`] does.
    pub fn unix(text: &str) -> Result<Self, PathError> {
        Self::new(Style::Unix, text)
    }

    /// Parses a Windows path.
    ///
    /// # Errors
    /// Returns an error as [`HostPath::new`] does.
    pub fn windows(text: &str) -> Result<Self, PathError> {
        Self::new(Style::Windows, text)
    }

    /// Parses a path of the current machine.
    ///
    /// # Errors
    /// Returns an error as [`HostPath::new`] does, or if the path is not UTF-8.
    pub fn native(path: &Path) -> Result<Self, PathError> {
        let text = path.to_str().ok_or_else(|| PathError {
            kind: "host",
            text: path.to_string_lossy().into_owned(),
            rule: "it is not UTF-8",
        })?;
        Self::new(Style::native(), text)
    }

    /// Returns the rules by which the path was parsed.
    #[must_use]
    pub const fn style(&self) -> Style {
        self.style
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the path for the standard library; meaningful only on a machine of its style.
    #[must_use]
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(&self.text)
    }

    /// Returns true if the path is a root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.text.len() == self.root
    }

    /// Returns the last component; `None` for a root.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        MappedPath::components(self).next_back()
    }

    /// Returns the parent directory; `None` for a root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let below = &self.text[self.root..];
        if below.is_empty() {
            return None;
        }
        let end = below.rfind(self.separator()).unwrap_or(0);
        Some(Self { text: self.text[..self.root + end].to_owned(), ..self.clone() })
    }

    fn parse_unix(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("it is not absolute");
        }
        if posix_fault(text).is_none() {
            return Ok(Self { style: Style::Unix, text: text.to_owned(), root: 1 });
        }
        let names: Vec<&str> = text.split('/').filter(|c| !matches!(*c, "" | ".")).collect();
        let text = format!("/{}", names.join("/"));
        match posix_fault(&text) {
            None => Ok(Self { style: Style::Unix, text, root: 1 }),
            Some(rule) => Err(rule),
        }
    }

    fn parse_windows(text: &str) -> Result<Self, &'static str> {
        let normalized = windows::normalized(text);
        let (root, rest) = windows::root(&normalized)?;
        let mut path = Self { style: Style::Windows, root: root.len(), text: root };
        for name in rest.split('\\').filter(|c| !matches!(*c, "" | ".")) {
            windows::fault(name).map_or(Ok(()), Err)?;
            path.push(name);
        }
        Ok(path)
    }

    /// Returns the root and the text below it.
    fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.root)
    }

    fn push(&mut self, name: &str) {
        if !self.is_root() {
            self.text.push(self.separator());
        }
        self.text.push_str(name);
    }
}

impl sealed::Sealed for HostPath {
    fn is_posix(&self) -> bool {
        self.style == Style::Unix
    }

    fn with_posix_rest(&self, rest: &str) -> Self {
        Self { text: with_posix_rest(&self.text, rest), ..*self }
    }
}

impl MappedPath for HostPath {
    fn as_str(&self) -> &str {
        &self.text
    }

    fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.text[self.root..].split(self.separator()).filter(|part| !part.is_empty())
    }

    fn append(&mut self, component: &str) -> Result<(), PathError> {
        let fault = match self.style {
            Style::Unix => posix_component_fault(component),
            Style::Windows => windows::fault(component),
        };
        if let Some(rule) = fault {
            return Err(PathError { kind: "host", text: component.to_owned(), rule });
        }
        self.push(component);
        Ok(())
    }

    fn into_string(self) -> String {
        self.text
    }

    fn rest_below<'a>(&'a self, ancestor: &Self) -> Option<&'a str> {
        match (self.style, ancestor.style) {
            (Style::Unix, Style::Unix) => posix_rest_below(&self.text, &ancestor.text),
            (Style::Windows, Style::Windows) => windows::rest_below(self.parts(), ancestor.parts()),
            _ => None,
        }
    }

    fn parse_with_same_rules(&self, text: &str) -> Result<Self, PathError> {
        Self::new(self.style, text)
    }

    fn same_component(&self, one: &str, other: &str) -> bool {
        match self.style {
            Style::Unix => one == other,
            Style::Windows => windows::same_name(one, other),
        }
    }

    fn separator(&self) -> char {
        match self.style {
            Style::Unix => '/',
            Style::Windows => '\\',
        }
    }
}

impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.style, &self.text).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HostPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (style, text) = <(Style, String)>::deserialize(deserializer)?;
        Self::new(style, &text).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<&Path> for HostPath {
    type Error = PathError;

    fn try_from(path: &Path) -> Result<Self, PathError> {
        Self::native(path)
    }
}

#[cfg(test)]
mod tests;
