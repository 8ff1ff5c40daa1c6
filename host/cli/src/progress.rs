//! Progress of long operations: a bar on a terminal, plain lines otherwise, and no output when quiet.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{Progress, Silent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::messages::{Messages, Verbosity};
use crate::render::{Escaped, bytes};

/// Returns the progress receiver for this standard error and verbosity.
pub(crate) fn progress(messages: Messages) -> Arc<dyn Progress> {
    match messages.verbosity() {
        Verbosity::Quiet => Arc::new(Silent),
        Verbosity::Normal | Verbosity::Verbose if io::stderr().is_terminal() => Arc::new(Bar::new(messages)),
        Verbosity::Normal | Verbosity::Verbose => {
            Arc::new(Lines::new(move |line| messages.note(line), move |line| messages.explain(line)))
        }
    }
}

/// A progress bar that is redrawn in place.
///
/// The bar has no thread of its own that updates it, because a run confines the process later, and the process must not
/// have other threads before that.
struct Bar {
    messages: Messages,
    current: Mutex<Option<ProgressBar>>,
}

const MEASURED: &str = "codebox: {msg} {bar:30} {bytes}/{total_bytes} {eta}";
const UNMEASURED: &str = "codebox: {msg} {spinner} {elapsed}";

impl Bar {
    const fn new(messages: Messages) -> Self {
        Self { messages, current: Mutex::new(None) }
    }

    fn replace(&self, bar: Option<ProgressBar>) {
        let old = std::mem::replace(&mut *self.current.lock().unwrap_or_else(PoisonError::into_inner), bar);
        if let Some(old) = old {
            old.finish_and_clear();
        }
    }

    fn with(&self, act: impl FnOnce(&ProgressBar)) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = current.as_ref() {
            act(bar);
        }
    }
}

impl Drop for Bar {
    /// Clears the bar of a step that failed.
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl Progress for Bar {
    fn started(&self, what: &str, total_bytes: Option<u64>) {
        let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
        let template = match total_bytes {
            Some(_) => MEASURED,
            None => UNMEASURED,
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(Escaped(what).to_string());
        bar.tick();
        self.replace(Some(bar));
    }

    fn advanced(&self, bytes: u64) {
        self.with(|bar| bar.inc(bytes));
    }

    fn finished(&self) {
        self.replace(None);
    }

    fn note(&self, line: &str) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match current.as_ref() {
            Some(bar) => bar.suspend(|| self.messages.note(line)),
            None => self.messages.note(line),
        }
    }

    fn detail(&self, line: &str) {
        self.messages.explain(line);
    }
}

/// Progress as plain lines: one at the start of a step, one at about every tenth, and one at the end.
struct Lines<S, D> {
    print_line: S,
    print_detail: D,
    step: Mutex<Step>,
}

/// State of the current step.
#[derive(Debug, Default)]
struct Step {
    what: String,
    total: Option<u64>,
    done: u64,
    reported_tenths: u64,
}

impl<S: Fn(String) + Send + Sync, D: Fn(String) + Send + Sync> Lines<S, D> {
    fn new(print_line: S, print_detail: D) -> Self {
        Self { print_line, print_detail, step: Mutex::default() }
    }
}

impl<S: Fn(String) + Send + Sync, D: Fn(String) + Send + Sync> Progress for Lines<S, D> {
    fn started(&self, what: &str, total_bytes: Option<u64>) {
        let total = total_bytes.filter(|total| *total > 0);
        let size = total.map(|total| format!(" ({})", bytes(total)));
        (self.print_line)(format!("{what}{}", size.unwrap_or_default()));
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) =
            Step { what: what.to_owned(), total, ..Step::default() };
    }

    fn advanced(&self, bytes: u64) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        step.done = step.done.saturating_add(bytes);
        let Some(total) = step.total else {
            return;
        };
        let tenths = (u128::from(step.done) * 10 / u128::from(total)).min(10);
        let tenths = u64::try_from(tenths).unwrap_or(10);
        // The line at the end covers the last tenth.
        if tenths > step.reported_tenths && tenths < 10 {
            step.reported_tenths = tenths;
            (self.print_line)(format!("{}: {}%", step.what, tenths * 10));
        }
    }

    fn finished(&self) {
        let step = std::mem::take(&mut *self.step.lock().unwrap_or_else(PoisonError::into_inner));
        if !step.what.is_empty() {
            (self.print_line)(format!("{}: done", step.what));
        }
    }

    fn note(&self, line: &str) {
        (self.print_line)(line.to_owned());
    }

    fn detail(&self, line: &str) {
        (self.print_detail)(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [MEASURED, UNMEASURED] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn prints_every_tenth() {
        let said = Mutex::new(Vec::new());
        let lines = Lines::new(|line| said.lock().expect("one thread").push(line), |line| panic!("{line}"));
        lines.started("fetching python", Some(2048));
        for _ in 0..2048 {
            lines.advanced(1);
        }
        lines.finished();
        lines.started("compiling python", None);
        lines.advanced(7);
        lines.note("this takes a minute");
        lines.finished();
        lines.finished();
        let said = said.lock().expect("one thread");
        assert_eq!(said[0], "fetching python (2.0 KiB)");
        assert_eq!(said[1], "fetching python: 10%");
        assert_eq!(said[9], "fetching python: 90%");
        assert_eq!(said[10], "fetching python: done");
        assert_eq!(said[11..], ["compiling python", "this takes a minute", "compiling python: done"]);
    }
}
