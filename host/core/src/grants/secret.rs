//! Secrets that a guest uses without seeing them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{NetGrant, NetRules, SecretName};
use crate::name::NameError;

/// Minimum length of a value: the occurrences of a shorter one in ordinary text would be masked as well.
const MIN_LEN: usize = 8;

/// Maximum length of a value, which has to fit into the head of a request.
const MAX_LEN: usize = 4096;

const RULE: &str = "use 8 to 4096 printable ASCII characters, without a space at either end and without a line feed";

/// Secret that the guest uses without seeing it: the guest has a placeholder, which the host replaces with the value in the
/// headers of HTTP requests to certain hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretGrant {
    /// Name of the secret, which is also the environment variable that has the placeholder.
    pub name: SecretName,
    /// Value of the secret; `None` in a record on disk.
    pub value: Option<SecretValue>,
    /// Hosts that may receive the value, on every granted port.
    pub hosts: Vec<NetGrant>,
}

impl SecretGrant {
    /// Returns the text that the guest has in place of the value. It is not secret.
    #[must_use]
    pub fn placeholder(&self) -> String {
        // A name has no full stop, so no placeholder is the beginning of another one.
        format!("codebox-secret.{}.", self.name)
    }

    /// Returns true if `host`, as the guest wrote it, may receive the value.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        NetRules(self.hosts.clone()).check_any_port(host).is_ok()
    }
}

/// Value of a secret. Its debug output omits it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretValue(String);

impl SecretValue {
    /// Creates a value from `text`. An error does not contain the text.
    ///
    /// # Errors
    /// Returns an error if the text is too short, too long, or cannot be sent in a header.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let good = printable && (MIN_LEN..=MAX_LEN).contains(&text.len()) && text.trim() == text;
        if good { Ok(Self(text)) } else { Err(NameError::new("value of a secret", "(not shown)", RULE)) }
    }

    /// Returns the value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(..)")
    }
}

impl TryFrom<String> for SecretValue {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<SecretValue> for String {
    fn from(value: SecretValue) -> Self {
        value.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(hosts: &[&str]) -> SecretGrant {
        SecretGrant {
            name: SecretName::new("TOKEN").expect("a name"),
            value: SecretValue::new("sk-12345678").ok(),
            hosts: hosts.iter().map(|host| host.parse().expect("a host")).collect(),
        }
    }

    #[test]
    fn values_are_sendable_and_not_shown() {
        for bad in ["", "short", "with\nline feed", "trailing space ", "ünicode-value", &"x".repeat(5000)] {
            let error = SecretValue::new(bad).expect_err("it is refused");
            assert!(bad.is_empty() || !format!("{error:?} {error}").contains(bad), "{error:?}");
        }
        let value = SecretValue::new("sk-1234 5678").expect("a value");
        assert_eq!(format!("{value:?}"), "SecretValue(..)");
        assert!(!format!("{:?}", secret(&["a.org"])).contains("1234"));
    }

    #[test]
    fn a_secret_is_for_its_hosts_alone() {
        let secret = secret(&["api.example.org", "*.a.org", "127.0.0.1"]);
        for host in ["api.example.org", "API.Example.org.", "x.a.org", "127.0.0.1"] {
            assert!(secret.is_for(host), "{host}");
        }
        for host in ["example.org", "a.org", "api.example.org.evil.org", "127.0.0.2", "localhost", ""] {
            assert!(!secret.is_for(host), "{host}");
        }
        assert_eq!(secret.placeholder(), "codebox-secret.TOKEN.");
    }
}
