//! What codebox itself says, on standard error.

use std::fmt::Display;
use std::io::Write;

use clap::builder::styling::{AnsiColor, Style};

use crate::args::LoudnessArgs;
use crate::failure::Failure;
use crate::render::Escaped;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Errors only.
    Quiet,
    /// What the user has to know.
    Normal,
    /// What was chosen, why, and what it used.
    Verbose,
}

impl From<LoudnessArgs> for Loudness {
    fn from(args: LoudnessArgs) -> Self {
        match args {
            LoudnessArgs { quiet: true, .. } => Self::Quiet,
            LoudnessArgs { verbose: true, .. } => Self::Verbose,
            LoudnessArgs { .. } => Self::Normal,
        }
    }
}

/// Says lines on standard error, in colour where standard error shows colour.
///
/// Lines are escaped here, so that no caller can forget. What cannot be written is lost: there is nowhere
/// left to say so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    loudness: Loudness,
}

const NOTE: Style = AnsiColor::Cyan.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const FIX: Style = AnsiColor::Green.on_default();

impl Voice {
    pub(crate) const fn new(loudness: Loudness) -> Self {
        Self { loudness }
    }

    pub(crate) const fn loudness(self) -> Loudness {
        self.loudness
    }

    /// Says what the user has to know.
    pub(crate) fn note(self, line: impl Display) {
        if self.loudness >= Loudness::Normal {
            say(NOTE, &line.to_string());
        }
    }

    /// Says what helps to understand.
    pub(crate) fn explain(self, line: impl Display) {
        if self.loudness >= Loudness::Verbose {
            say(NOTE, &line.to_string());
        }
    }

    /// Says what failed and what to do about it, however quiet.
    pub(crate) fn fail(self, failure: &Failure) {
        say(ERROR, failure.message());
        if let Some(fix) = failure.fix() {
            let fix = Escaped(fix);
            let _lost = writeln!(anstream::stderr(), "  {FIX}fix:{FIX:#} {fix}");
        }
    }
}

fn say(style: Style, line: &str) {
    let line = Escaped(line);
    let _lost = writeln!(anstream::stderr(), "{style}codebox:{style:#} {line}");
}
