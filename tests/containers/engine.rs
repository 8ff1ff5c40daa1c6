//! Container engines of the rows, and their own CLIs, which report the containers as created.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use codebox_testkit::{Kit, check_engine, engine_output, is_required};
use serde_json::Value;

/// Container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Podman,
    Docker,
}

/// Lazily determined availability of an engine, or the reason why it is unavailable.
pub type Availability = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

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

    pub fn lazy_availability(self, kit: Kit) -> Availability {
        LazyLock::new(Box::new(move || check_engine(&kit, self.name()).map_err(|error| format!("{error:#}"))))
    }

    /// Runs the engine's own CLI and returns its output.
    pub fn run_cli(self, args: &[&str]) -> Result<String> {
        engine_output(self.name(), args)
    }

    /// Lists the containers with this label, running or not.
    pub fn containers(self, label: &str) -> Result<Vec<String>> {
        let filter = format!("label={label}");
        let output = self.run_cli(&["ps", "--all", "--no-trunc", "--quiet", "--filter", &filter])?;
        Ok(output.lines().map(str::to_owned).collect())
    }

    /// Returns the engine's full description of a container.
    pub fn inspect(self, id: &str) -> Result<Value> {
        let output: Value = serde_json::from_str(&self.run_cli(&["container", "inspect", id])?)?;
        output.get(0).cloned().with_context(|| format!("{} knows no container {id}", self.name()))
    }
}
