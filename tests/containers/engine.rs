//! The engines that rows run on, and their own tools, which tell what codebox made of them.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use codebox_testkit::{Kit, engine_answers, engine_says, is_required};
use serde_json::Value;

/// An engine of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Podman,
    Docker,
}

/// Whether an engine can be used, or why not, found out once and only when somebody asks.
pub type Ready = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

impl Engine {
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Its name, which is its tool's and what `CODEBOX_REQUIRE` takes, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Whether its absence is a failure.
    pub fn is_required(self) -> bool {
        is_required(self.name())
    }

    pub fn lazily_ready(self, kit: Kit) -> Ready {
        LazyLock::new(Box::new(move || engine_answers(&kit, self.name()).map_err(|error| format!("{error:#}"))))
    }

    /// What its own tool prints.
    pub fn says(self, args: &[&str]) -> Result<String> {
        engine_says(self.name(), args)
    }

    /// The containers with this label, running or not.
    pub fn containers(self, label: &str) -> Result<Vec<String>> {
        let filter = format!("label={label}");
        let told = self.says(&["ps", "--all", "--no-trunc", "--quiet", "--filter", &filter])?;
        Ok(told.lines().map(str::to_owned).collect())
    }

    /// All that it knows of a container.
    pub fn inspect(self, id: &str) -> Result<Value> {
        let told: Value = serde_json::from_str(&self.says(&["container", "inspect", id])?)?;
        told.get(0).cloned().with_context(|| format!("{} knows no container {id}", self.name()))
    }
}
