use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::NameError;
use crate::path::{DirGrant, HostPath};
use crate::text_form::serialize_as_text;

mod dir;
mod net;
mod secret;

pub use dir::{DirGrantSpec, GrantParseError};
pub use net::{AddressKind, NetGrant, NetRules, Refusal, RefusalReason};
pub(crate) use net::{authority, shorten_host};
pub use secret::{SecretGrant, SecretValue};

/// Host resources that the guest may access; none by default.
///
/// Backends destructure this type without `..`, so that a new kind of grant breaks the build of every backend that does
/// not handle it yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grants {
    /// Host directories.
    pub dirs: Vec<DirGrant>,
    /// Directory of the host whose files the guest has copies of, in [`Job::files`](crate::Job::files).
    #[serde(default)]
    pub project: Option<HostPath>,
    /// Hosts that the guest may connect to.
    pub net: Vec<NetGrant>,
    /// Variables of the host's environment that the guest may see; their values are in [`Job::env`](crate::Job::env).
    pub env: Vec<EnvName>,
    /// Secrets that the guest may use in requests to some of the hosts, without seeing them. In WebAssembly only.
    #[serde(default)]
    pub secrets: Vec<SecretGrant>,
    /// Host tools that the guest may call.
    pub tools: Vec<ToolName>,
}

impl Grants {
    /// Returns grants with no file, no network, no environment and no tool.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns true if no resource is granted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let Self { dirs, project, net, env, secrets, tools } = self;
        dirs.is_empty()
            && project.is_none()
            && net.is_empty()
            && env.is_empty()
            && secrets.is_empty()
            && tools.is_empty()
    }
}

/// Defines a validated name.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $good:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Creates a name from `text`.
            ///
            /// # Errors
            /// Returns an error if `text` is not a valid name.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                let good: fn(&str) -> bool = $good;
                if good(&text) { Ok(Self(text)) } else { Err(NameError::new($what, &text, $rule)) }
            }

            /// Returns the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        serialize_as_text!($name);

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
    };
}

name! {
    /// Name of an environment variable.
    EnvName, "environment variable", "a name must not be empty or contain '=' or NUL",
    |text| !text.is_empty() && !text.contains(['=', '\0'])
}

name! {
    /// Name of a host tool: letters, digits, `_`, `-` and `.`.
    ToolName, "tool name", "use up to 128 letters, digits, '_', '-' and '.'",
    |text| {
        (1..=128).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    }
}

name! {
    /// Name of a secret: letters, digits and `_`, not beginning with a digit.
    SecretName, "name of a secret", "use up to 64 letters, digits and '_', and no digit as the first",
    |text| {
        (1..=64).contains(&text.len())
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_nothing_by_default() {
        assert!(Grants::none().is_none());
        assert_eq!(Grants::none(), Grants::default());
    }

    #[test]
    fn rejects_invalid_names() {
        assert!(EnvName::new("TOKEN").is_ok());
        for bad in ["", "A=B", "A\0"] {
            assert!(EnvName::new(bad).is_err(), "{bad:?}");
        }
        assert!(SecretName::new("_API_KEY2").is_ok());
        for bad in ["", "2A", "A-B", "A.B", "é"] {
            assert!(SecretName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ToolName::new("files.read").is_ok());
        for bad in ["", "a b", "a/b", "é"] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
    }
}
