//! Settings that the environment makes for the tests.

use std::env;

/// Returns true if `CODEBOX_REQUIRE`, a comma-separated list, contains this name. The absence of a required item is a
/// failure; the absence of any other item makes a test ignored, with the reason.
#[must_use]
pub fn is_required(name: &str) -> bool {
    let required = env::var("CODEBOX_REQUIRE").unwrap_or_default();
    required.split(',').any(|one| one.trim() == name)
}

/// Returns true if `CODEBOX_TESTS=full` selects every test on each container engine, and every package.
///
/// Otherwise the tests of the second engine, of TypeScript and Lua in containers, and of packages are a selection, because
/// they share their code path with others and the time of a change's tests is limited. `cargo xtask nightly` selects the
/// full form.
#[must_use]
pub fn is_full() -> bool {
    env::var_os("CODEBOX_TESTS").is_some_and(|value| value == "full")
}

/// Returns true if the test with this number runs: one in `one_in`, or every one in the full form.
#[must_use]
pub fn is_selected(number: usize, one_in: usize) -> bool {
    is_full() || number.is_multiple_of(one_in)
}

/// Length of the reliability tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Soak {
    /// Short form, which runs for every change.
    Short,
    /// Long form, which `CODEBOX_SOAK=1` selects.
    Long,
}

impl Soak {
    /// Returns the amount of this form.
    #[must_use]
    pub fn of(self, short: usize, long: usize) -> usize {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// Returns the length that `CODEBOX_SOAK` selects.
#[must_use]
pub fn soak() -> Soak {
    if env::var_os("CODEBOX_SOAK").is_some_and(|value| value == "1") { Soak::Long } else { Soak::Short }
}
