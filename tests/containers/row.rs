//! A row of the table of threats, as a trial on each engine.

use std::process::Command;

use anyhow::Result;

use crate::engine::Engine;
use crate::ground::Ground;

/// What is tried, and looked at.
pub type Try = fn(&Ground) -> Result<()>;

/// One row.
pub struct Row {
    pub name: &'static str,
    pub run: Try,
    impossible: Option<(Engine, &'static str)>,
    tool: Option<&'static str>,
}

/// A row that both engines have.
pub fn row(name: &'static str, run: Try) -> Row {
    Row { name, run, impossible: None, tool: None }
}

impl Row {
    /// On this engine it cannot be tried, for this reason.
    pub fn except(mut self, engine: Engine, why: &'static str) -> Self {
        self.impossible = Some((engine, why));
        self
    }

    /// It takes this program of the machine's, which may not be there.
    pub fn with_tool(mut self, tool: &'static str) -> Self {
        self.tool = Some(tool);
        self
    }

    /// Why it cannot be tried on an engine, if it cannot.
    pub fn impossible_on(&self, engine: Engine) -> Option<String> {
        let here = self.impossible.and_then(|(one, why)| (one == engine).then(|| why.to_owned()));
        let is_there = |tool: &&str| Command::new(tool).arg("-V").output().is_ok();
        here.or_else(|| self.tool.filter(|tool| !is_there(tool)).map(|tool| format!("there is no {tool}")))
    }
}
