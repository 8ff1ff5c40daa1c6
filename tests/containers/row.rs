//! Rows of the threat table, each a trial on each engine.

use std::process::Command;

use anyhow::Result;

use crate::engine::Engine;
use crate::test_env::TestEnvironment;

/// Body of a trial.
pub type TestBody = fn(&TestEnvironment) -> Result<()>;

/// Row of the threat table.
pub struct Row {
    pub name: &'static str,
    pub run: TestBody,
    excluded: Option<(Engine, &'static str)>,
    tool: Option<&'static str>,
}

/// Creates a row for both engines.
pub fn row(name: &'static str, run: TestBody) -> Row {
    Row { name, run, excluded: None, tool: None }
}

impl Row {
    /// Excludes an engine, with the reason.
    pub fn except(mut self, engine: Engine, why: &'static str) -> Self {
        self.excluded = Some((engine, why));
        self
    }

    /// Declares a program of the machine that the row needs and that may be missing.
    pub fn with_tool(mut self, tool: &'static str) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Returns the reason why the row cannot run on an engine, if there is one.
    pub fn exclusion_reason(&self, engine: Engine) -> Option<String> {
        let here = self.excluded.and_then(|(one, why)| (one == engine).then(|| why.to_owned()));
        let is_installed = |tool: &&str| Command::new(tool).arg("-V").output().is_ok();
        here.or_else(|| self.tool.filter(|tool| !is_installed(tool)).map(|tool| format!("there is no {tool}")))
    }
}
