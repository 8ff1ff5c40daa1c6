//! What is found when codebox looks itself and the machine over.

use serde::Serialize;

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// Usable, with less than there could be.
    Warn,
    /// Not usable.
    Fail,
}

impl CheckState {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing: "wasm backend", "python/python.wasm".
    pub name: String,
    /// How it is.
    pub state: CheckState,
    /// What was found, in one line.
    pub detail: String,
    /// What to do about it, in one line.
    pub fix: Option<String>,
}

impl Check {
    /// As it should be.
    #[must_use]
    pub fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: CheckState::Ok, detail: detail.into(), fix: None }
    }

    /// Usable, with less than there could be.
    #[must_use]
    pub fn warn(name: impl Into<String>, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: CheckState::Warn, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// Not usable.
    #[must_use]
    pub fn fail(name: impl Into<String>, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: CheckState::Fail, ..Self::warn(name, detail, fix) }
    }
}

/// The state of the worst; nothing looked at is nothing wrong.
#[must_use]
pub fn worst(checks: &[Check]) -> CheckState {
    checks.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides() {
        let mut checks = vec![Check::ok("a", "fine")];
        assert_eq!(worst(&checks), CheckState::Ok);
        checks.push(Check::fail("b", "gone", "get it"));
        checks.push(Check::warn("c", "old", "renew it"));
        assert_eq!(worst(&checks), CheckState::Fail);
        assert_eq!(worst(&[]), CheckState::Ok);
    }
}
