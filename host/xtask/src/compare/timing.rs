//! Timing of two processes in alternation.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::project::{command_line, output_of};

/// Compared process: its command and the output that it must print.
pub struct Subject<'a> {
    pub command: Command,
    pub expected_output: &'a str,
}

impl Subject<'_> {
    /// Runs the process once, untimed, and checks its output.
    fn check(&mut self) -> Result<()> {
        let command_line = command_line(&self.command);
        let found = output_of(&mut self.command)?;
        ensure!(found == self.expected_output, "{command_line} printed {found:?} and not {:?}", self.expected_output);
        Ok(())
    }

    fn time(&mut self) -> Result<Duration> {
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = self.command.status();
        let wall_time = began.elapsed();
        let status = status.with_context(|| format!("start {}", command_line(&self.command)))?;
        ensure!(status.success(), "{} failed: {status}", command_line(&self.command));
        Ok(wall_time)
    }
}

/// Median times of two processes that ran alternately.
pub struct Medians {
    pub one: Duration,
    pub other: Duration,
}

/// Checks both outputs, then runs both processes alternately.
///
/// # Errors
/// Fails if either process cannot be run, fails, or prints a wrong output.
pub fn run_alternately(mut one: Subject, mut other: Subject, runs: usize) -> Result<Medians> {
    one.check()?;
    other.check()?;
    let (mut ones, mut others) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for _ in 0..runs {
        ones.push(one.time()?);
        others.push(other.time()?);
    }
    Ok(Medians { one: median(&mut ones), other: median(&mut others) })
}

/// Returns the middle value, or the upper of the two middle values.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Computes the geometric mean of positive values.
pub fn geometric_mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_middle_value() {
        let mut times = [5, 1, 9].map(Duration::from_millis);
        assert_eq!(median(&mut times), Duration::from_millis(5));
        assert_eq!(median(&mut []), Duration::ZERO);
    }

    #[test]
    fn geometric_mean_of_ratio_and_inverse_is_one() {
        assert!((geometric_mean([4.0, 0.25].into_iter()) - 1.0).abs() < 1e-12);
    }

    #[cfg(unix)]
    #[test]
    fn rejects_wrong_output() {
        let echo = |expected_output| {
            let mut command = Command::new("echo");
            command.arg("1");
            Subject { command, expected_output }
        };
        assert!(run_alternately(echo("1\n"), echo("1\n"), 1).is_ok());
        let error = run_alternately(echo("1\n"), echo("2\n"), 1).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("echo 1 printed \"1\\n\" and not \"2\\n\""));
    }
}
