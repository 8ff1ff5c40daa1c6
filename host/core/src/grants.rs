use std::fmt;
use std::str::FromStr;

use crate::name::NameError;
use crate::path::{GuestPath, HostPath};

mod dir;
mod net;

pub use dir::{Access, DirGrant, DirGrantSpec, GrantParseError};
pub use net::{AddressKind, NetGrant, NetRules, Refusal, RefusalReason};
pub(crate) use net::{authority, shortened};

/// What the guest may touch. The default is nothing.
///
/// Backends take this apart without `..`, so that a new kind of grant breaks every build that does not yet
/// handle it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// Directories of the host.
    pub dirs: Vec<DirGrant>,
    /// Hosts that it may connect to.
    pub net: Vec<NetGrant>,
    /// Variables of the host's environment that it may see; their values are in [`Job::env`](crate::Job::env).
    pub env: Vec<EnvName>,
    /// Host tools that it may call.
    pub tools: Vec<ToolName>,
}

impl Grants {
    /// No file, no network, no environment, no tool.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether nothing is granted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let Self { dirs, net, env, tools } = self;
        dirs.is_empty() && net.is_empty() && env.is_empty() && tools.is_empty()
    }

    /// The directory granted at `guest` itself.
    #[must_use]
    pub fn dir_at(&self, guest: &GuestPath) -> Option<&HostPath> {
        self.dirs.iter().find(|dir| dir.guest == *guest).map(|dir| &dir.host)
    }
}

/// Defines a validated name.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $good:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Accepts `text` if it is such a name.
            ///
            /// # Errors
            /// When it is not.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                let good: fn(&str) -> bool = $good;
                if good(&text) { Ok(Self(text)) } else { Err(NameError::new($what, &text, $rule)) }
            }

            /// The name.
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

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
    };
}

name! {
    /// The name of an environment variable.
    EnvName, "environment variable", "a name is not empty and holds no '=' and no NUL",
    |text| !text.is_empty() && !text.contains(['=', '\0'])
}

name! {
    /// The name of a host tool: letters, digits, `_`, `-` and `.`.
    ToolName, "tool name", "use up to 128 letters, digits, '_', '-' and '.'",
    |text| {
        (1..=128).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_by_default() {
        assert!(Grants::none().is_none());
        assert_eq!(Grants::none(), Grants::default());
    }

    #[test]
    fn names_are_checked() {
        assert!(EnvName::new("TOKEN").is_ok());
        for bad in ["", "A=B", "A\0"] {
            assert!(EnvName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ToolName::new("files.read").is_ok());
        for bad in ["", "a b", "a/b", "é"] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
    }
}
