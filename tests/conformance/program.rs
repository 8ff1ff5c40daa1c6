//! One language's program of a case.

use crate::expect::{Expect, Expecting, Expects, Tiered};
use crate::tier::Tier;

/// A text, and what is so for this language alone.
#[derive(Debug, Clone)]
pub struct Program {
    /// Bytes, since not every text is UTF-8.
    pub text: &'static [u8],
    /// The text that takes its place in containers.
    container_text: Option<&'static [u8]>,
    /// The name of its file, where the case's does not serve.
    pub name: Option<&'static str>,
    /// Files beside the case's own: the host directory, and names and contents in it.
    pub files: Vec<Files>,
    /// What it is expected to do beyond what the case expects, or instead.
    pub expect: Expects,
    /// The only tier it is for, and why.
    pub only: Option<(Tier, &'static str)>,
}

/// Files of a host directory.
pub type Files = (&'static str, &'static [(&'static str, &'static str)]);

/// A program with something of its own; a text alone serves where there is nothing.
pub fn program(text: impl Into<Program>) -> Program {
    text.into()
}

impl Program {
    /// In a file of this name.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// In containers, where programs can do more, this one takes its place.
    pub fn in_containers(mut self, text: &'static str) -> Self {
        self.container_text = Some(text.as_bytes());
        self
    }

    /// The text that a tier runs.
    pub fn text_in(&self, tier: Tier) -> &'static [u8] {
        match tier {
            Tier::Wasm => self.text,
            Tier::Container => self.container_text.unwrap_or(self.text),
        }
    }

    /// With these files in a host directory that the case grants.
    pub fn beside(mut self, directory: &'static str, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files.push((directory, files));
        self
    }
}

impl Tiered for Program {
    fn expects(&mut self) -> &mut Expects {
        &mut self.expect
    }

    fn only(&mut self) -> &mut Option<(Tier, &'static str)> {
        &mut self.only
    }
}

impl Expecting for Program {
    fn expectation(&mut self) -> &mut Expect {
        &mut self.expect.all
    }
}

impl From<&'static str> for Program {
    fn from(text: &'static str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&'static [u8]> for Program {
    fn from(text: &'static [u8]) -> Self {
        Self { text, container_text: None, name: None, files: Vec::new(), expect: Expects::default(), only: None }
    }
}

impl<const N: usize> From<&'static [u8; N]> for Program {
    fn from(text: &'static [u8; N]) -> Self {
        text.as_slice().into()
    }
}
