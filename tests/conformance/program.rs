//! One language's program of a case.

use crate::expect::{Expectation, ExpectationBuilder, TierExpectations, TieredExpectation};
use crate::tier::Tier;

/// Program text, and expectations for this language alone.
#[derive(Debug, Clone)]
pub struct Program {
    /// Text in bytes, because it may be invalid UTF-8.
    pub text: &'static [u8],
    /// Replacement text for containers.
    container_text: Option<&'static [u8]>,
    /// File name, if the case's name does not suit.
    pub name: Option<&'static str>,
    /// Files in addition to the case's own: the host directory, and its file names and contents.
    pub files: Vec<Files>,
    /// Expectations in addition to those of the case, or instead of them.
    pub expect: TieredExpectation,
    /// Only tier of the program, with the reason.
    pub only: Option<(Tier, &'static str)>,
}

/// Files of a host directory.
pub type Files = (&'static str, &'static [(&'static str, &'static str)]);

/// Creates a program with further settings; a plain text suffices otherwise.
pub fn program(text: impl Into<Program>) -> Program {
    text.into()
}

impl Program {
    /// Sets the file name.
    pub fn with_name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets another text for containers, in which programs can do more.
    pub fn in_containers(mut self, text: &'static str) -> Self {
        self.container_text = Some(text.as_bytes());
        self
    }

    /// Returns the text for a tier.
    pub fn text_for(&self, tier: Tier) -> &'static [u8] {
        match tier {
            Tier::Wasm => self.text,
            Tier::Container => self.container_text.unwrap_or(self.text),
        }
    }

    /// Adds these files to a host directory that the case grants.
    pub fn with_files(mut self, directory: &'static str, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files.push((directory, files));
        self
    }
}

impl TierExpectations for Program {
    fn expectations(&mut self) -> &mut TieredExpectation {
        &mut self.expect
    }

    fn only(&mut self) -> &mut Option<(Tier, &'static str)> {
        &mut self.only
    }
}

impl ExpectationBuilder for Program {
    fn expectation(&mut self) -> &mut Expectation {
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
        Self {
            text,
            container_text: None,
            name: None,
            files: Vec::new(),
            expect: TieredExpectation::default(),
            only: None,
        }
    }
}

impl<const N: usize> From<&'static [u8; N]> for Program {
    fn from(text: &'static [u8; N]) -> Self {
        text.as_slice().into()
    }
}
