//! A row of the table of threats, as a trial on each engine.

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
}

/// A row that both engines have.
pub fn row(name: &'static str, run: Try) -> Row {
    Row { name, run, impossible: None }
}

impl Row {
    /// On this engine it cannot be tried, for this reason.
    pub fn except(mut self, engine: Engine, why: &'static str) -> Self {
        self.impossible = Some((engine, why));
        self
    }

    /// Why it cannot be tried on an engine, if it cannot.
    pub fn impossible_on(&self, engine: Engine) -> Option<&'static str> {
        self.impossible.and_then(|(one, why)| (one == engine).then_some(why))
    }
}
