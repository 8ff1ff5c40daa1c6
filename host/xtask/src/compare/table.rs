//! Result table of a comparison.

use std::fmt::Write;
use std::time::Duration;

use super::timing::{Medians, geometric_mean};

/// Comparison and its bar.
pub struct Row {
    pub what: &'static str,
    /// Greatest acceptable ratio; `None` if the comparison is only informative.
    pub max_ratio: Option<f64>,
    /// Measurement, or the reason why it is missing.
    pub measurement: Result<Measurement, String>,
}

/// Times of codebox and of the native program.
pub struct Measurement {
    pub ratio: f64,
    pub codebox: Duration,
    pub native: Duration,
    pub runs: String,
}

impl Measurement {
    /// Creates the result from the medians of codebox (first) and the native program (second).
    pub fn of(medians: &Medians, runs: String) -> Self {
        let Medians { one, other } = *medians;
        Self { ratio: one.as_secs_f64() / other.as_secs_f64(), codebox: one, native: other, runs }
    }

    /// Creates the result from geometric means over the seconds of several programs, codebox first in each pair.
    pub fn of_pairs(pairs: &[(f64, f64)], runs: String) -> Self {
        let mean = |of: fn(&(f64, f64)) -> f64| geometric_mean(pairs.iter().map(of));
        Self {
            ratio: mean(|(guest, native)| guest / native),
            codebox: Duration::from_secs_f64(mean(|(guest, _)| *guest)),
            native: Duration::from_secs_f64(mean(|(_, native)| *native)),
            runs,
        }
    }
}

/// Relation of a measurement to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Met,
    Missed,
    NotMeasured,
    /// Measured, without a bar.
    Open,
}

impl Row {
    pub fn verdict(&self) -> Verdict {
        match (&self.measurement, self.max_ratio) {
            (Err(_), _) => Verdict::NotMeasured,
            (Ok(_), None) => Verdict::Open,
            (Ok(measurement), Some(max_ratio)) if measurement.ratio <= max_ratio => Verdict::Met,
            (Ok(_), Some(_)) => Verdict::Missed,
        }
    }
}

/// Renders the rows as a Markdown table, followed by the facts of the machine.
pub fn render(rows: &[Row], facts: &str) -> String {
    let mut text = String::from("| what | bar | ratio | | codebox | native | runs |\n|---|---|---|---|---|---|---|\n");
    for row in rows {
        let verdict = match row.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::NotMeasured => "not measured",
            Verdict::Open => "",
        };
        let max_ratio = row.max_ratio.map(|max_ratio| format!("<= {max_ratio}x")).unwrap_or_default();
        let line = match &row.measurement {
            Ok(Measurement { ratio, codebox, native, runs }) => {
                let (codebox, native) = (format_millis(*codebox), format_millis(*native));
                format!("| {} | {max_ratio} | {ratio:.3}x | {verdict} | {codebox} | {native} | {runs} |", row.what)
            }
            Err(why) => {
                let why = why.lines().next().unwrap_or_default().replace('|', "/");
                format!("| {} | {max_ratio} | | {verdict} | | | {why} |", row.what)
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n{facts}");
    text
}

fn format_millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_verdict_or_reason() {
        let row = |measurement| Row { what: "start", max_ratio: Some(1.3), measurement };
        let measured_row = |ms| {
            let medians = Medians { one: Duration::from_millis(ms), other: Duration::from_millis(10) };
            row(Ok(Measurement::of(&medians, "5 each".into())))
        };
        let open = Row { max_ratio: None, ..measured_row(14) };
        let rows = [measured_row(13), measured_row(14), row(Err("no network\nat all".into())), open];
        let verdicts = [Verdict::Met, Verdict::Missed, Verdict::NotMeasured, Verdict::Open];
        assert_eq!(rows.each_ref().map(Row::verdict), verdicts);
        let text = render(&rows, "2 cores");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "| start | <= 1.3x | 1.300x | met | 13.00 ms | 10.00 ms | 5 each |");
        assert_eq!(lines[2], "| start | <= 1.3x | | not measured | | | no network |");
        assert_eq!(lines[3], "| start |  | 1.400x |  | 14.00 ms | 10.00 ms | 5 each |");
        assert_eq!(lines[5], "2 cores");
    }
}
