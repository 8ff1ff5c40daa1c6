//! What confinement achieved.

/// One part of the second wall and how much of it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// The mechanism, `landlock` or `seccomp`.
    pub name: &'static str,
    /// How much of it stands.
    pub state: WallState,
    /// What is covered, or why it is not, as a short phrase for reports.
    pub detail: String,
}

/// How much of a wall stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WallState {
    /// All of it.
    Held,
    /// Some of it; the detail says what is missing.
    Partial,
    /// None of it, because the caller switched it off. [`confine`](crate::confine) never answers this: it is
    /// what a caller that does not call it reports.
    Off,
    /// None of it, because the system lacks it.
    Unavailable,
}

impl Wall {
    /// The walls of a process that was deliberately not confined, so that a report can say so.
    #[must_use]
    pub fn all_off() -> Vec<Wall> {
        Self::all(WallState::Off, "switched off by the caller")
    }

    /// Every wall there is, in one state for one reason.
    pub(crate) fn all(state: WallState, detail: &str) -> Vec<Wall> {
        ["landlock", "seccomp"].map(|name| Wall { name, state, detail: detail.to_owned() }).into()
    }
}
