//! What the environment asks of the tests.

use std::env;

/// Whether `CODEBOX_REQUIRE`, a list parted by commas, names this: its absence is then a failure, else an ignored
/// test with the reason.
#[must_use]
pub fn is_required(name: &str) -> bool {
    let required = env::var("CODEBOX_REQUIRE").unwrap_or_default();
    required.split(',').any(|one| one.trim() == name)
}

/// How long the reliability tests go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Soak {
    /// The form that every change runs.
    Short,
    /// The form of `CODEBOX_SOAK=1`.
    Long,
}

impl Soak {
    /// One of two amounts.
    #[must_use]
    pub fn of(self, short: usize, long: usize) -> usize {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// What `CODEBOX_SOAK` asks for.
#[must_use]
pub fn soak() -> Soak {
    if env::var_os("CODEBOX_SOAK").is_some_and(|value| value == "1") { Soak::Long } else { Soak::Short }
}
