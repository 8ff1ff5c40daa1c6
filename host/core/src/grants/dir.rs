use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::path::{GuestPath, HostPath, PathError, Style};

/// Whether a granted directory can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Access {
    /// Read only.
    #[default]
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl Access {
    /// The word that users type: `ro` or `rw`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }

    /// The stricter of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A directory of the host that appears in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirGrant {
    /// The directory, absolute and free of links.
    pub host: HostPath,
    /// Where it appears.
    pub guest: GuestPath,
    /// Whether it can be written.
    pub access: Access,
}

/// A directory grant as a user wrote it: `HOST:GUEST[:ro|rw]`, read-only unless it says otherwise.
///
/// The host part is kept as written, because making it absolute needs the file system; once that is done,
/// [`DirGrantSpec::at`] makes it a [`DirGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirGrantSpec {
    /// The directory as written; may be relative.
    pub host: String,
    /// Where it appears.
    pub guest: GuestPath,
    /// Whether it can be written.
    pub access: Access,
}

/// Why a text is no directory grant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrantParseError {
    /// The parts are not `HOST:GUEST[:ro|rw]`.
    #[error("bad directory grant {text:?}: {rule}; write HOST:GUEST, HOST:GUEST:ro or HOST:GUEST:rw")]
    Shape {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// The guest part is no guest path.
    #[error("bad directory grant {text:?}: {source}")]
    Guest {
        /// The text as given.
        text: String,
        /// What is wrong with the guest part.
        source: PathError,
    },
}

impl DirGrantSpec {
    /// Reads a grant whose host part follows `style`.
    ///
    /// The guest part starts with `/` and holds no `:`; the host part may hold `:` only as a Windows drive's
    /// (`C:\a:/data:ro`). One `/` at the guest part's end is dropped.
    ///
    /// # Errors
    /// When a part is missing, empty, left over or malformed.
    pub fn parse(text: &str, style: Style) -> Result<Self, GrantParseError> {
        let shape = |rule| GrantParseError::Shape { text: text.to_owned(), rule };
        let drive = match style {
            Style::Unix => 0,
            Style::Windows => drive_length(text),
        };
        let (host, rest) = text[drive..]
            .split_once(':')
            .map(|(host, rest)| (&text[..drive + host.len()], rest))
            .ok_or_else(|| shape("it has no ':'"))?;
        let mut parts = rest.split(':');
        let guest = parts.next().unwrap_or_default();
        let access = match parts.next() {
            None => Access::ReadOnly,
            Some("ro") => Access::ReadOnly,
            Some("rw") => Access::ReadWrite,
            Some("") => return Err(shape("the access is empty")),
            Some(_) => return Err(shape("the third part is neither ro nor rw")),
        };
        if parts.next().is_some() {
            return Err(shape("something is left over"));
        }
        if host.is_empty() {
            return Err(shape("the host part is empty"));
        }
        if host.contains('\0') {
            return Err(shape("the host part holds a NUL"));
        }
        if guest.is_empty() {
            return Err(shape("the guest part is empty"));
        }
        let trimmed = guest.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(guest);
        let guest =
            GuestPath::new(trimmed).map_err(|source| GrantParseError::Guest { text: text.to_owned(), source })?;
        Ok(Self { host: host.to_owned(), guest, access })
    }

    /// The grant, now that the host part is known to be `host`.
    #[must_use]
    pub fn at(self, host: HostPath) -> DirGrant {
        let Self { host: _, guest, access } = self;
        DirGrant { host, guest, access }
    }
}

/// Bytes of a leading drive (`C:`), or of one after `\\?\`, whose `:` does not end the host part.
fn drive_length(text: &str) -> usize {
    let start = if text.starts_with(r"\\?\") { 4 } else { 0 };
    let mut chars = text[start..].chars();
    let drive = match (chars.next(), chars.next(), chars.next()) {
        (Some(letter), Some(':'), Some('\\')) => letter.is_ascii_alphabetic(),
        // `C:/data` is the folder `C` at `/data`, unless a guest part follows.
        (Some(letter), Some(':'), Some('/')) => letter.is_ascii_alphabetic() && text[start + 2..].contains(":/"),
        _ => false,
    };
    if drive { start + 2 } else { 0 }
}

impl FromStr for DirGrantSpec {
    type Err = GrantParseError;

    /// Reads a grant by the rules of this machine.
    fn from_str(text: &str) -> Result<Self, GrantParseError> {
        Self::parse(text, Style::native())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, style: Style) -> Option<(String, String, Access)> {
        let DirGrantSpec { host, guest, access } = DirGrantSpec::parse(text, style).ok()?;
        Some((host, guest.to_string(), access))
    }

    #[test]
    fn reads_all_three_parts() {
        let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
        for (text, style, host, guest, access) in [
            ("./data:/data", Style::Unix, "./data", "/data", ro),
            ("./data:/data:ro", Style::Unix, "./data", "/data", ro),
            (".:/work:rw", Style::Unix, ".", "/work", rw),
            ("/a b,c=d:/x/", Style::Unix, "/a b,c=d", "/x", ro),
            ("-rf:/x", Style::Unix, "-rf", "/x", ro),
            ("/a:/", Style::Unix, "/a", "/", ro),
            (r"C:\a:/data:ro", Style::Windows, r"C:\a", "/data", ro),
            ("C:/a:/data", Style::Windows, "C:/a", "/data", ro),
            ("C:/data", Style::Windows, "C", "/data", ro),
            ("C:/data:rw", Style::Windows, "C", "/data", rw),
            (r"\\?\C:\a:/data:rw", Style::Windows, r"\\?\C:\a", "/data", rw),
            (r"sub\dir:/data", Style::Windows, r"sub\dir", "/data", ro),
        ] {
            let want = Some((host.to_owned(), guest.to_owned(), access));
            assert_eq!(parsed(text, style), want, "{text}");
        }
    }

    #[test]
    fn refuses_leftovers_and_empty_parts() {
        for text in [
            "",
            ":",
            "a",
            "a:",
            ":/a",
            "a::ro",
            "a:/b:",
            "a:/b:rx",
            "a:/b:ro:",
            "a:/b:ro:x",
            "a:b",
            "a:/b/../c",
            "a:/b//c",
            "a:/b/:/c",
            "a:/b:RO",
            "a\0:/b",
            "a:/b\0",
            "/a:/b:/c",
            "a:ro",
        ] {
            let error = DirGrantSpec::parse(text, Style::Unix).expect_err(text);
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        for text in [r"C:\a", r"C:\a:", r"C:\a:b", r"C:\a:/b:C:\c"] {
            assert!(DirGrantSpec::parse(text, Style::Windows).is_err(), "{text}");
        }
    }
}
