//! Messages of codebox on standard error.

use codebox_core::RunnerError;
use std::fmt::Display;
use std::io::Write;

use clap::builder::styling::{AnsiColor, Style};

use crate::args::LoudnessArgs;
use crate::render::Escaped;

/// Verbosity of codebox's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Errors only.
    Quiet,
    /// Messages that the user needs.
    Normal,
    /// Explanations of choices, their reasons, and resource usage.
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

/// Prints messages on standard error, with colour if the terminal supports it.
///
/// All lines are escaped here, so that callers cannot forget it. Errors on standard error are ignored, because they
/// cannot be reported anywhere.
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

    /// Prints a message that the user needs.
    pub(crate) fn note(self, line: impl Display) {
        if self.loudness >= Loudness::Normal {
            say(NOTE, &line.to_string());
        }
    }

    /// Prints an explanation.
    pub(crate) fn explain(self, line: impl Display) {
        if self.loudness >= Loudness::Verbose {
            say(NOTE, &line.to_string());
        }
    }

    /// Prints a failure and its remedy at every verbosity.
    pub(crate) fn fail(self, failure: &RunnerError) {
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
