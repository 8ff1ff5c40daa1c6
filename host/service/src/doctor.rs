//! Results of checks of codebox and the machine.

use serde::Serialize;

/// State of a checked component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Working as expected.
    Ok,
    /// Usable with restrictions.
    Warn,
    /// Not usable.
    Fail,
}

impl CheckState {
    /// Returns the state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Checked component, such as "wasm backend" or "python/python.wasm".
    pub name: String,
    /// State of the component.
    pub state: CheckState,
    /// Finding, in one line.
    pub detail: String,
    /// Remedy, in one line.
    pub fix: Option<String>,
}

impl Check {
    /// Creates the result of a check that found no problem.
    #[must_use]
    pub fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: CheckState::Ok, detail: detail.into(), fix: None }
    }

    /// Creates the result of a check of a component that is usable with restrictions.
    #[must_use]
    pub fn warn(name: impl Into<String>, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: CheckState::Warn, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// Creates the result of a check of a component that is not usable.
    #[must_use]
    pub fn fail(name: impl Into<String>, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: CheckState::Fail, ..Self::warn(name, detail, fix) }
    }
}

/// Returns the worst state of these checks; [`Ok`](CheckState::Ok) if there are none.
#[must_use]
pub fn highest_severity(checks: &[Check]) -> CheckState {
    checks.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_level_is_reported() {
        let mut checks = vec![Check::ok("a", "fine")];
        assert_eq!(highest_severity(&checks), CheckState::Ok);
        checks.push(Check::fail("b", "gone", "get it"));
        checks.push(Check::warn("c", "old", "renew it"));
        assert_eq!(highest_severity(&checks), CheckState::Fail);
        assert_eq!(highest_severity(&[]), CheckState::Ok);
    }
}
