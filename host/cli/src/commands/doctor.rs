//! `codebox doctor`, and the output of checks.

use std::fmt::Write;

use clap::builder::styling::{AnsiColor, Style};
use codebox_core::{RunnerError, exit};
use codebox_runner::Runner;
use codebox_service::{Check, CheckState, highest_severity};
use serde_json::{Value, json};

use crate::answer;
use crate::render::Escaped;

pub(super) fn doctor(is_json: bool, runner: &Runner) -> Result<u8, RunnerError> {
    let checks = runner.checks();
    if !is_json {
        return show(&checks);
    }
    let shown: Vec<Value> = checks
        .iter()
        .map(|Check { name, state, detail, fix }| {
            json!({ "name": name, "state": state.as_str(), "detail": detail, "fix": fix })
        })
        .collect();
    let printed = answer::print_json(&json!({ "checks": shown }))?;
    Ok(status(&checks, printed))
}

/// Prints checks and returns the exit status, which is codebox's failure status if a check failed.
pub(super) fn show(checks: &[Check]) -> Result<u8, RunnerError> {
    let printed = answer::print(&lines(checks))?;
    Ok(status(checks, printed))
}

fn status(checks: &[Check], printed: u8) -> u8 {
    match highest_severity(checks) {
        CheckState::Fail => exit::FAILURE,
        CheckState::Ok | CheckState::Warn => printed,
    }
}

fn lines(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let style = style(check.state);
        let state = check.state.as_str();
        let (name, detail) = (Escaped(&check.name), Escaped(&check.detail));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{style}{state:4}{style:#}  {name}: {detail}");
        if let Some(fix) = &check.fix {
            let _ = writeln!(text, "      fix: {}", Escaped(fix));
        }
    }
    text
}

const fn style(state: CheckState) -> Style {
    match state {
        CheckState::Ok => AnsiColor::Green.on_default(),
        CheckState::Warn => AnsiColor::Yellow.on_default(),
        CheckState::Fail => AnsiColor::Red.on_default().bold(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_print_fix() {
        let checks = [
            Check::ok("runtime python", "installed"),
            Check::fail("landlock", "the kernel\nlacks it", "use a newer kernel"),
        ];
        let mut plain = anstream::StripStream::new(Vec::new());
        std::io::Write::write_all(&mut plain, lines(&checks).as_bytes()).expect("a vector");
        assert_eq!(
            String::from_utf8(plain.into_inner()).expect("UTF-8"),
            "ok    runtime python: installed\nfail  landlock: the kernel\\nlacks it\n      fix: use a newer kernel\n"
        );
    }
}
