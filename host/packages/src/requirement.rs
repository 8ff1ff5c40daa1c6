//! Requirements: a name, extras, versions and markers, and no URL or path.

use std::fmt;
use std::str::FromStr;

use uv_pep508::VersionOrUrl;
use uv_pypi_types::VerbatimParsedUrl;

use crate::complexity::{self, ComplexityLimit};

/// Maximum length of a requirement in bytes.
const MAX_LENGTH: usize = 1024;

/// A user's requirement: `requests`, `rich>=13`, `httpx[http2]; python_version > "3.10"`.
///
/// It has PEP 508's names, extras, version specifiers and markers, but no URL or path of a package.
#[derive(Clone, PartialEq, Eq)]
pub struct Requirement(uv_pep508::Requirement<VerbatimParsedUrl>);

/// Error for a text that is not an allowed requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid package {text:?}: {reason}; use a name with versions, such as 'requests' or 'rich>=13'")]
pub struct RequirementError {
    /// The text, shortened.
    pub text: String,
    /// The reason.
    pub reason: String,
}

impl Requirement {
    /// Returns the package's name as indexes normalize it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name.as_ref()
    }

    /// Returns true if this is the package's name, in any spelling.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        uv_normalize::PackageName::from_str(name).is_ok_and(|name| name == self.0.name)
    }

    /// Returns true if the requirement applies to some systems only.
    pub(crate) fn has_marker(&self) -> bool {
        !self.0.marker.is_true()
    }

    /// Returns true if a version satisfies the requirement.
    pub(crate) fn allows_version(&self, version: &str) -> bool {
        let Ok(version) = uv_pep440::Version::from_str(version) else { return false };
        match &self.0.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.contains(&version),
            Some(VersionOrUrl::Url(_)) => false,
            None => true,
        }
    }

    /// Converts the requirement to the resolver's type.
    pub(crate) fn lower(&self) -> uv_distribution_types::Requirement {
        self.0.clone().into()
    }

    pub(crate) fn inner(&self) -> &uv_pep508::Requirement<VerbatimParsedUrl> {
        &self.0
    }
}

impl FromStr for Requirement {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let refused = |reason: &str| RequirementError {
            text: text.chars().take(80).collect(),
            reason: reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect(),
        };
        if text.len() > MAX_LENGTH {
            return Err(refused("it is longer than 1024 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(refused("it contains a control character"));
        }
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(refused("it is empty"));
        }
        if trimmed.starts_with('-') {
            return Err(refused("it is an option, not a package"));
        }
        // Before the markers, these characters occur only in URLs and paths.
        let before = trimmed.split(';').next().unwrap_or_default();
        if before.contains(['@', '/', '\\', ':', '%', '$', '?']) {
            return Err(refused("URLs and paths are not allowed"));
        }
        if !complexity::is_allowed(trimmed, ComplexityLimit::USER_REQUIREMENT) {
            return Err(refused("its marker is too complex"));
        }
        let parsed = uv_pep508::Requirement::<VerbatimParsedUrl>::from_str(trimmed);
        let parsed = parsed.map_err(|error| refused(error.message.to_string().lines().next().unwrap_or_default()))?;
        match parsed.version_or_url {
            Some(VersionOrUrl::Url(_)) => Err(refused("URLs and paths are not allowed")),
            Some(VersionOrUrl::VersionSpecifier(_)) | None => Ok(Self(parsed)),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_names_versions_extras_and_markers() {
        for (text, name, shown) in [
            ("requests", "requests", "requests"),
            (" Rich >= 13 ", "rich", "rich>=13"),
            ("A_b.C", "a-b-c", "a-b-c"),
            ("httpx[http2,socks]~=0.27.0", "httpx", "httpx[http2,socks]~=0.27.0"),
            ("x==1.*,!=1.5", "x", "x==1.*,!=1.5"),
            ("x (>=1)", "x", "x>=1"),
            ("x==1!2.0.post1+local", "x", "x==1!2.0.post1+local"),
            ("tomli; python_version < '3.11'", "tomli", "tomli ; python_full_version < '3.11'"),
        ] {
            let parsed: Requirement = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((parsed.name(), parsed.to_string().as_str()), (name, shown));
        }
    }

    #[test]
    fn rejects_urls_paths_and_options() {
        for text in [
            "",
            " ",
            "-r/etc/passwd",
            "--index-url=http://127.0.0.1/",
            "-e .",
            "git+ssh://host/x",
            "file:///etc/passwd",
            "x @ http://169.254.169.254/x.whl",
            "x@http://127.0.0.1/x.whl",
            "x @ file:///x.whl",
            "x @ ./x.whl",
            ";",
            "; python_version > '3'",
            "x\n--index-url http://127.0.0.1/",
            "x\r-r y",
            "x\0",
            "x\u{1b}[2J",
            "../x",
            "./x",
            "/x",
            "x/y",
            "x\\y",
            "C:\\x",
            "~/x",
            "x.whl/../y",
            "x y",
            "x --hash=sha256:00",
            "x>=1 --pre",
            "$HOME",
            "${HOME}",
            "x=1",
            "x===",
            "é",
            ".",
            "..",
            "x; import os",
            "x; 'a' @ 'b'",
            "x; ((((((((((((((((((((((os_name == 'a'))))))))))))))))))))))",
            "x; a or b and c or d and e or f and g or h and i or j",
        ] {
            let refused = text.parse::<Requirement>().err().unwrap_or_else(|| panic!("{text:?} is taken"));
            let line = refused.to_string();
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        assert!("x".repeat(2000).parse::<Requirement>().is_err());
    }

    proptest! {
        #[test]
        fn accepted_requirements_round_trip(text in "\\PC{0,40}|[a-z@:/;.>=<~! \\[\\],-]{0,30}") {
            if let Ok(parsed) = text.parse::<Requirement>() {
                prop_assert!(parsed.name().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
                prop_assert!(!parsed.name().starts_with('-'));
                let again: Requirement = parsed.to_string().parse().expect("the displayed text is a requirement");
                prop_assert_eq!(again, parsed);
            }
        }
    }
}
