use std::str::FromStr;

use thiserror::Error;

use crate::path::{Access, DirGrant, GuestPath, HostPath, PathError, Style};

/// Working directory of programs.
const WORK_DIR: &str = "/work";

/// Directory grant as a user wrote it: `HOST[:GUEST][:ro|rw]`, read-only by default. Without GUEST it is `/work` and the name of the directory,
/// or `/work` itself for the current directory.
///
/// The host part is kept as written, because making it absolute requires the file system. [`DirGrantSpec::at`] combines
/// the spec with the absolute path into a [`DirGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirGrantSpec {
    /// Host directory as written; may be relative.
    pub host: String,
    /// Path in the guest.
    pub guest: GuestPath,
    /// Access of the guest.
    pub access: Access,
}

/// Error for text that is not a valid directory grant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrantParseError {
    /// Text that does not have the form `HOST[:GUEST][:ro|rw]`.
    #[error(
        "invalid directory grant {text:?}: {rule}; write HOST, HOST:rw, HOST:GUEST, HOST:GUEST:ro or HOST:GUEST:rw"
    )]
    Syntax {
        /// The original text.
        text: String,
        /// Description of the problem.
        rule: &'static str,
    },
    /// A guest part that is not a valid guest path.
    #[error("invalid directory grant {text:?}: {source}")]
    Guest {
        /// The original text.
        text: String,
        /// Error of the guest part.
        source: PathError,
    },
}

impl DirGrantSpec {
    /// Parses a grant whose host part follows `style`.
    ///
    /// The guest part starts with `/` and contains no `:`. The host part may contain a `:` only after a Windows drive
    /// letter (`C:\a:/data:ro`). One trailing `/` of the guest part is dropped.
    ///
    /// # Errors
    /// Returns an error if a part is missing, empty, surplus or malformed.
    pub fn parse(text: &str, style: Style) -> Result<Self, GrantParseError> {
        let syntax_error = |rule| GrantParseError::Syntax { text: text.to_owned(), rule };
        let drive = match style {
            Style::Unix => 0,
            Style::Windows => drive_length(text),
        };
        let (host, rest) = match text[drive..].split_once(':') {
            Some((host, rest)) => (&text[..drive + host.len()], Some(rest)),
            None => (text, None),
        };
        let mut parts = rest.into_iter().flat_map(|rest| rest.split(':')).peekable();
        let guest = parts.next_if(|part| !matches!(*part, "ro" | "rw"));
        let access = match parts.next() {
            None => Access::ReadOnly,
            Some("ro") => Access::ReadOnly,
            Some("rw") => Access::ReadWrite,
            Some("") => return Err(syntax_error("the access is empty")),
            Some(_) => return Err(syntax_error("the access must be ro or rw")),
        };
        if parts.next().is_some() {
            return Err(syntax_error("too many parts"));
        }
        if host.is_empty() {
            return Err(syntax_error("the host part is empty"));
        }
        if host.contains('\0') {
            return Err(syntax_error("the host part contains a NUL"));
        }
        let guest = match guest {
            Some("") => return Err(syntax_error("the guest part is empty")),
            Some(guest) => guest.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(guest).to_owned(),
            None => default_guest(&host[drive..], style)
                .ok_or_else(|| syntax_error("the directory has no name, so the guest part is needed"))?,
        };
        let guest = GuestPath::new(guest).map_err(|source| GrantParseError::Guest { text: text.to_owned(), source })?;
        Ok(Self { host: host.to_owned(), guest, access })
    }

    /// Returns the grant for the absolute host directory `host`.
    #[must_use]
    pub fn at(self, host: HostPath) -> DirGrant {
        let Self { host: _, guest, access } = self;
        DirGrant { host, guest, access }
    }
}

/// Returns the place in the guest of a directory for which none is given: below `/work` by its name, or `/work` for the current directory.
/// `None` for a root and for a name like `..`.
fn default_guest(host: &str, style: Style) -> Option<String> {
    let separators = match style {
        Style::Unix => &['/'][..],
        Style::Windows => &['/', '\\'],
    };
    match host.split(separators).rfind(|name| !matches!(*name, "" | ".")) {
        Some("..") => None,
        Some(name) => Some(format!("{WORK_DIR}/{name}")),
        None => (!host.starts_with(separators)).then(|| WORK_DIR.to_owned()),
    }
}

/// Returns the length in bytes of a leading drive (`C:` or `\\?\C:`), whose `:` does not end the host part.
fn drive_length(text: &str) -> usize {
    let start = if text.starts_with(r"\\?\") { 4 } else { 0 };
    let mut chars = text[start..].chars();
    let drive = match (chars.next(), chars.next(), chars.next()) {
        (Some(letter), Some(':'), Some('\\')) => letter.is_ascii_alphabetic(),
        // `C:/data` grants the folder `C` at `/data`, unless a guest part follows.
        (Some(letter), Some(':'), Some('/')) => letter.is_ascii_alphabetic() && text[start + 2..].contains(":/"),
        _ => false,
    };
    if drive { start + 2 } else { 0 }
}

impl FromStr for DirGrantSpec {
    type Err = GrantParseError;

    /// Parses a grant by the path style of this machine.
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
    fn parses_host_guest_and_access() {
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
            ("data", Style::Unix, "data", "/work/data", ro),
            ("../x/data/:rw", Style::Unix, "../x/data/", "/work/data", rw),
            (".", Style::Unix, ".", "/work", ro),
            ("./:rw", Style::Unix, "./", "/work", rw),
            (r"C:\a", Style::Windows, r"C:\a", "/work/a", ro),
            (r"C:\a\b:rw", Style::Windows, r"C:\a\b", "/work/b", rw),
        ] {
            let want = Some((host.to_owned(), guest.to_owned(), access));
            assert_eq!(parsed(text, style), want, "{text}");
        }
    }

    #[test]
    fn rejects_surplus_and_empty_parts() {
        for text in [
            "",
            ":",
            "/",
            "..",
            "a/..:rw",
            ":rw",
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
            "a:ro:rw",
            "a:rw:/b",
        ] {
            let error = DirGrantSpec::parse(text, Style::Unix).expect_err(text);
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        for text in [r"C:\", r"C:\a:", r"C:\a:b", r"C:\a:/b:C:\c"] {
            assert!(DirGrantSpec::parse(text, Style::Windows).is_err(), "{text}");
        }
    }
}
