//! The tiers that a case can run in.

use std::sync::LazyLock;

use codebox_testkit::{Kit, is_required};

use crate::language::Language;

/// A way to run a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Wasm,
}

/// Whether a backend can run a language, or why not, found out once and only when somebody asks.
pub type Ready = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

impl Backend {
    pub const ALL: [Self; 1] = [Self::Wasm];

    /// The name that `--isolation` and `CODEBOX_REQUIRE` take.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
        }
    }

    /// Whether its absence is a failure. A backend that is required is required to run every language.
    pub fn is_required(self) -> bool {
        is_required(self.name())
    }

    pub fn lazily_ready(self, language: Language, kit: Kit) -> Ready {
        LazyLock::new(Box::new(move || match self {
            Self::Wasm => language.prepare(&kit).map_err(|error| format!("{error:#}")),
        }))
    }
}
