use std::collections::BTreeMap;

use super::LimitKind;

/// How well a limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    /// The guest cannot exceed it.
    Enforced,
    /// It is watched, and may be exceeded for a moment or by a little.
    BestEffort,
    /// It is not held.
    Unsupported,
}

impl Held {
    /// The name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::BestEffort => "best-effort",
            Self::Unsupported => "unsupported",
        }
    }
}

/// What actually held during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enforcement {
    /// How well each limit was held.
    pub limits: BTreeMap<LimitKind, Held>,
    /// What a limit did not cover in this run, in one line, where there is such a thing.
    pub uncovered: BTreeMap<LimitKind, String>,
    /// The walls between guest and host, the innermost first.
    pub walls: Vec<Wall>,
}

/// One wall between guest and host, such as Landlock or a seccomp filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// Its name, such as `landlock`.
    pub name: String,
    /// Whether it stood.
    pub state: WallState,
    /// What it did or why it did not, in one line.
    pub detail: String,
}

/// Whether a wall stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WallState {
    /// It stood.
    Held,
    /// It stood in part; the detail says which.
    Partial,
    /// The user turned it off.
    Off,
    /// The system does not offer it.
    Unavailable,
}

impl WallState {
    /// The name in reports.
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
