//! Backends that a case can run on.

use std::sync::LazyLock;

use codebox_testkit::{BASE_IMAGE, Kit, check_engine, is_full, is_required, is_selected};

use crate::language::Language;
use crate::tier::Tier;

/// Backend of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Wasm,
    Podman,
    Docker,
}

/// Lazily determined ability of a backend to run a language, or the reason why it cannot.
pub type Availability = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

impl Backend {
    pub const ALL: [Self; 3] = [Self::Wasm, Self::Podman, Self::Docker];

    /// Returns the name in `CODEBOX_REQUIRE` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns the options of `codebox run` that select exactly this backend.
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

    /// Returns true if the language's cases run on the backend. The second engine runs one language in the short form.
    pub fn runs(self, language: Language) -> bool {
        self != Self::Docker || language == Language::Python || is_full()
    }

    /// Returns true if the case with this number runs. In the short form, containers run one case in four of TypeScript
    /// and of Lua, which share their code path with JavaScript and Python, and the second engine one in four of all.
    pub fn selects(self, language: Language, number: usize) -> bool {
        match (self, language) {
            (Self::Wasm, _) | (Self::Podman, Language::Python | Language::JavaScript) => true,
            (Self::Podman | Self::Docker, _) => is_selected(number, 4),
        }
    }

    /// Returns true if the absence of the backend is a failure. A required backend must run every language.
    pub fn is_required(self) -> bool {
        is_required(self.name())
    }

    pub fn lazy_availability(self, language: Language, kit: Kit) -> Availability {
        LazyLock::new(Box::new(move || match self {
            Self::Wasm => language.prepare(&kit).map_err(|error| format!("{error:#}")),
            Self::Podman | Self::Docker => {
                let engine = check_engine(&kit, self.name());
                engine.and_then(|()| language.describe(&kit)).map_err(|error| format!("{error:#}"))
            }
        }))
    }
}
