//! Trials that are more than one run of one program.

use anyhow::Result;
use codebox_testkit::{Guest, Kit};

use crate::Verdict;

/// What such a trial does, in one language.
pub type Run = fn(&Kit, Guest) -> Result<Verdict>;

/// A trial with the programs that it attacks with.
pub struct Compound {
    name: &'static str,
    fixtures: Vec<&'static str>,
    only: Option<Guest>,
    run: Run,
}

/// A trial called `ROW::NAME`, in every language.
pub fn compound(name: &'static str, run: Run) -> Compound {
    Compound { name, fixtures: Vec::new(), only: None, run }
}

impl Compound {
    /// Attacks with these programs, where a language has them all.
    pub fn with(mut self, fixtures: &[&'static str]) -> Self {
        self.fixtures.extend(fixtures);
        self
    }

    /// In this language alone, or, where no guest plays a part in it, with this one for whoever has to run.
    pub fn only(mut self, guest: Guest) -> Self {
        self.only = Some(guest);
        self
    }

    pub fn fixtures(&self) -> &[&'static str] {
        &self.fixtures
    }

    pub fn guests(&self) -> Vec<Guest> {
        let made = |guest: &Guest| {
            let all_there = self.fixtures.iter().all(|fixture| guest.hostile(fixture).exists());
            self.only.is_none_or(|only| only == *guest) && all_there
        };
        Guest::ALL.into_iter().filter(made).collect()
    }

    pub fn name(&self, guest: Guest) -> String {
        format!("{}::{}", guest.name(), self.name)
    }

    pub fn run(&self) -> Run {
        self.run
    }
}
