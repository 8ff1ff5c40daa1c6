//! Timing processes against each other.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::project::{output_of, shown};

/// A process that is compared: how it is started, and what it must print.
pub struct Subject<'a> {
    pub command: Command,
    pub answer: &'a str,
}

impl Subject<'_> {
    /// Runs it once, untimed, and looks at its answer.
    fn check(&mut self) -> Result<()> {
        let shown = shown(&self.command);
        let found = output_of(&mut self.command)?;
        ensure!(found == self.answer, "{shown} printed {found:?} and not {:?}", self.answer);
        Ok(())
    }

    fn time(&mut self) -> Result<Duration> {
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = self.command.status();
        let took = began.elapsed();
        let status = status.with_context(|| format!("start {}", shown(&self.command)))?;
        ensure!(status.success(), "{} failed: {status}", shown(&self.command));
        Ok(took)
    }
}

/// The median times of two processes that were run in turns.
pub struct Medians {
    pub one: Duration,
    pub other: Duration,
}

/// Checks both answers, then runs both in turns.
///
/// # Errors
/// When either cannot be run, fails, or prints something else than its answer.
pub fn in_turns(mut one: Subject, mut other: Subject, runs: usize) -> Result<Medians> {
    one.check()?;
    other.check()?;
    let (mut ones, mut others) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for _ in 0..runs {
        ones.push(one.time()?);
        others.push(other.time()?);
    }
    Ok(Medians { one: median(&mut ones), other: median(&mut others) })
}

/// The middle value; the upper one of two.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The geometric mean of values above zero.
pub fn geometric_mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        let mut times = [5, 1, 9].map(Duration::from_millis);
        assert_eq!(median(&mut times), Duration::from_millis(5));
        assert_eq!(median(&mut []), Duration::ZERO);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean([4.0, 0.25].into_iter()) - 1.0).abs() < 1e-12);
    }

    #[cfg(unix)]
    #[test]
    fn a_wrong_answer_is_an_error() {
        let echo = |answer| {
            let mut command = Command::new("echo");
            command.arg("1");
            Subject { command, answer }
        };
        assert!(in_turns(echo("1\n"), echo("1\n"), 1).is_ok());
        let error = in_turns(echo("1\n"), echo("2\n"), 1).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("echo 1 printed \"1\\n\" and not \"2\\n\""));
    }
}
