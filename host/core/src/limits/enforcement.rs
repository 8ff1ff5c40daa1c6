use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LimitKind;

/// Enforcement level of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EnforcementLevel {
    /// Strict enforcement: the guest cannot exceed the limit.
    Enforced,
    /// Approximate enforcement: the limit is monitored, and may be exceeded for a moment or by a little.
    BestEffort,
    /// No enforcement.
    Unsupported,
}

impl EnforcementLevel {
    /// Returns the name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::BestEffort => "best-effort",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Limits and sandbox layers that were in effect during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Enforcement {
    /// Enforcement level of each limit.
    pub limits: BTreeMap<LimitKind, EnforcementLevel>,
    /// Gap in the coverage of each limit that had one in this run, in one line.
    pub uncovered: BTreeMap<LimitKind, String>,
    /// Sandbox layers between guest and host, the innermost first.
    pub layers: Vec<SandboxLayer>,
}

/// One sandbox layer between guest and host, such as Landlock or a seccomp filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayer {
    /// Name of the layer, such as `landlock`.
    pub name: String,
    /// State of the layer.
    pub state: LayerState,
    /// Effect of the layer, or the reason that it had none, in one line.
    pub detail: String,
}

/// State of a sandbox layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LayerState {
    /// Active.
    Held,
    /// Active in part; the detail names the part.
    Partial,
    /// Turned off by the user.
    Off,
    /// Not offered by the system.
    Unavailable,
}

impl LayerState {
    /// Returns the name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Partial => "partial",
            Self::Off => "off",
            Self::Unavailable => "unavailable",
        }
    }
}
