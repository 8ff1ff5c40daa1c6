//! Container engines of the rows, and their own CLIs, which report the containers as created.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use codebox_testkit::{Kit, engine_answers, engine_says, is_required};
use serde_json::Value;

/// Container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Podman,
    Docker,
}

/// Lazily determined availability of an engine, or the reason why it is unavailable.
pub type Ready = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

impl Engine {
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name of the engine, its CLI and its entry in `CODEBOX_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns true if the absence of the engine is a failure.
    pub fn is_required(self) -> bool {
        is_required(self.name())
    }

    pub fn lazily_ready(self, kit: Kit) -> Ready {
        LazyLock::new(Box::new(move || engine_answers(&kit, self.name()).map_err(|error| format!("{error:#}"))))
    }

    /// Runs the engine's own CLI and returns its output.
    pub fn says(self, args: &[&str]) -> Result<String> {
        engine_says(self.name(), args)
    }

    /// Lists the containers with this label, running or not.
    pub fn containers(self, label: &str) -> Result<Vec<String>> {
        let filter = format!("label={label}");
        let told = self.says(&["ps", "--all", "--no-trunc", "--quiet", "--filter", &filter])?;
        Ok(told.lines().map(str::to_owned).collect())
    }

    /// Returns the engine's full description of a container.
    pub fn inspect(self, id: &str) -> Result<Value> {
        let told: Value = serde_json::from_str(&self.says(&["container", "inspect", id])?)?;
        told.get(0).cloned().with_context(|| format!("{} knows no container {id}", self.name()))
    }
}
