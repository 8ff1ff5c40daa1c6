//! Messages of codebox on standard error.

use codebox_core::RunnerError;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};

use crate::render::Escaped;

/// Verbosity of codebox's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Messages that the user needs.
    Normal,
    /// Explanations of choices, their reasons, and resource usage.
    Verbose,
}

/// Prints messages on standard error, with colour if the terminal supports it.
///
/// All lines are escaped here, so that callers cannot forget it. Errors on standard error are ignored, because they
/// cannot be reported anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Messages {
    verbosity: Verbosity,
}

const NOTE: Style = AnsiColor::Cyan.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const FIX: Style = AnsiColor::Green.on_default();

impl Messages {
    pub(crate) const fn new(verbosity: Verbosity) -> Self {
        Self { verbosity }
    }

    pub(crate) const fn verbosity(self) -> Verbosity {
        self.verbosity
    }

    /// Prints a message that the user needs.
    pub(crate) fn note(self, line: impl Display) {
        if self.verbosity >= Verbosity::Normal {
            print_line(NOTE, &line.to_string());
        }
    }

    /// Prints an explanation.
    pub(crate) fn explain(self, line: impl Display) {
        if self.verbosity >= Verbosity::Verbose {
            print_line(NOTE, &line.to_string());
        }
    }

    /// Prints a failure and its remedy at every verbosity.
    pub(crate) fn fail(self, failure: &RunnerError) {
        print_line(ERROR, failure.message());
        if let Some(fix) = failure.fix() {
            let fix = Escaped(fix);
            let _lost = writeln!(anstream::stderr(), "  {FIX}fix:{FIX:#} {fix}");
        }
    }
}

/// True if the last byte of the guest on a stream that messages share was no line feed.
static IS_WITHIN_LINE: AtomicBool = AtomicBool::new(false);

/// Records bytes that the guest has written to a stream that messages share.
pub(crate) fn guest_wrote(bytes: &[u8]) {
    if let Some(last) = bytes.last() {
        IS_WITHIN_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Prints a message on lines of its own.
fn print_line(style: Style, line: &str) {
    let line = Escaped(line);
    if IS_WITHIN_LINE.swap(false, Ordering::Relaxed) {
        let _lost = writeln!(anstream::stderr());
    }
    let _lost = writeln!(anstream::stderr(), "{style}codebox:{style:#} {line}");
}
