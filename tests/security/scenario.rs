//! Trials that consist of more than one run of one program.

use anyhow::Result;
use codebox_testkit::{Guest, Kit};

use crate::Verdict;

/// Body of such a trial for one language.
pub type Run = fn(&Kit, Guest) -> Result<Verdict>;

/// Trial, with the programs that it uses.
pub struct Scenario {
    name: &'static str,
    fixtures: Vec<&'static str>,
    only: Option<Guest>,
    run: Run,
}

/// Creates a trial named `ROW::NAME` for every language.
pub fn scenario(name: &'static str, run: Run) -> Scenario {
    Scenario { name, fixtures: Vec::new(), only: None, run }
}

impl Scenario {
    /// Adds programs; the trial runs in the languages that have all of them.
    pub fn with(mut self, fixtures: &[&'static str]) -> Self {
        self.fixtures.extend(fixtures);
        self
    }

    /// Restricts the trial to this language. A trial without an attacking guest runs its programs in this language too.
    pub fn only(mut self, guest: Guest) -> Self {
        self.only = Some(guest);
        self
    }

    pub fn fixtures(&self) -> &[&'static str] {
        &self.fixtures
    }

    pub fn guests(&self) -> Vec<Guest> {
        let has_programs = |guest: &Guest| {
            let has_all_fixtures = self.fixtures.iter().all(|fixture| guest.hostile(fixture).exists());
            self.only.is_none_or(|only| only == *guest) && has_all_fixtures
        };
        Guest::ALL.into_iter().filter(has_programs).collect()
    }

    pub fn name(&self, guest: Guest) -> String {
        format!("{}::{}", guest.name(), self.name)
    }

    pub fn run(&self) -> Run {
        self.run
    }
}
