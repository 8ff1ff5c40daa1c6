//! One language's program of a case.

use crate::expect::{Expect, Expecting};

/// A text, and what is so for this language alone.
#[derive(Debug, Clone)]
pub struct Program {
    /// Bytes, since not every text is UTF-8.
    pub text: &'static [u8],
    /// The name of its file, where the case's does not serve.
    pub name: Option<&'static str>,
    /// Files beside the case's own: the host directory, and names and contents in it.
    pub files: Vec<Files>,
    /// What it is expected to do beyond what the case expects, or instead.
    pub expect: Expect,
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

    /// With these files in a host directory that the case grants.
    pub fn beside(mut self, directory: &'static str, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files.push((directory, files));
        self
    }
}

impl Expecting for Program {
    fn expectation(&mut self) -> &mut Expect {
        &mut self.expect
    }
}

impl From<&'static str> for Program {
    fn from(text: &'static str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&'static [u8]> for Program {
    fn from(text: &'static [u8]) -> Self {
        Self { text, name: None, files: Vec::new(), expect: Expect::default() }
    }
}

impl<const N: usize> From<&'static [u8; N]> for Program {
    fn from(text: &'static [u8; N]) -> Self {
        text.as_slice().into()
    }
}
