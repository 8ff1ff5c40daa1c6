//! Results of confinement.

/// One mechanism of the second sandbox layer, and the degree to which it is enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// The mechanism, `landlock` or `seccomp`.
    pub name: &'static str,
    /// The degree to which the mechanism is enforced.
    pub state: WallState,
    /// The coverage, or the reason for its absence, as a short phrase for reports.
    pub detail: String,
}

/// The degree to which a wall is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WallState {
    /// Fully enforced.
    Held,
    /// Partially enforced; the detail says what is missing.
    Partial,
    /// Switched off by the caller. [`confine`](crate::confine) never returns this state; callers that skip it report
    /// the state.
    Off,
    /// Not supported by the system.
    Unavailable,
}

impl Wall {
    /// Returns the walls of a process that was deliberately not confined, for its report.
    #[must_use]
    pub fn all_off() -> Vec<Wall> {
        Self::all(WallState::Off, "switched off by the caller")
    }

    /// Returns all walls in one state for one reason.
    pub(crate) fn all(state: WallState, detail: &str) -> Vec<Wall> {
        ["landlock", "seccomp"].map(|name| Wall { name, state, detail: detail.to_owned() }).into()
    }
}
