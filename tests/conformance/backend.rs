//! The tiers that a case can run in.

use std::sync::LazyLock;

use codebox_testkit::{BASE_IMAGE, Kit, engine_answers, is_required};

use crate::language::Language;
use crate::tier::Tier;

/// A way to run a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Wasm,
    Podman,
    Docker,
}

/// Whether a backend can run a language, or why not, found out once and only when somebody asks.
pub type Ready = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

impl Backend {
    pub const ALL: [Self; 3] = [Self::Wasm, Self::Podman, Self::Docker];

    /// The name that `CODEBOX_REQUIRE` and reports take.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// What `codebox run` takes to run there and nowhere else.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Wasm => &["--isolation", "wasm"],
            Self::Podman => &["--isolation", "container", "--engine", "podman", "--image", BASE_IMAGE],
            Self::Docker => &["--isolation", "container", "--engine", "docker", "--image", BASE_IMAGE],
        }
    }

    pub fn tier(self) -> Tier {
        match self {
            Self::Wasm => Tier::Wasm,
            Self::Podman | Self::Docker => Tier::Container,
        }
    }

    /// The languages that it is to run. Runtimes that a user adds are WebAssembly's alone.
    pub fn runs(self, language: Language) -> bool {
        self == Self::Wasm || language != Language::Lua
    }

    /// Whether its absence is a failure. A backend that is required is required to run every language.
    pub fn is_required(self) -> bool {
        is_required(self.name())
    }

    pub fn lazily_ready(self, language: Language, kit: Kit) -> Ready {
        LazyLock::new(Box::new(move || match self {
            Self::Wasm => language.prepare(&kit).map_err(|error| format!("{error:#}")),
            Self::Podman | Self::Docker => engine_answers(&kit, self.name()).map_err(|error| format!("{error:#}")),
        }))
    }
}
