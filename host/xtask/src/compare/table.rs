//! Result table of a comparison.

use std::fmt::Write;
use std::time::Duration;

use super::timing::{Medians, geometric_mean};

/// Comparison and its bar.
pub struct Row {
    pub what: &'static str,
    /// Greatest acceptable ratio; `None` if the comparison is only informative.
    pub bar: Option<f64>,
    /// Measurement, or the reason why it is missing.
    pub measured: Result<Measured, String>,
}

/// Times of codebox and of the native program.
pub struct Measured {
    pub ratio: f64,
    pub codebox: Duration,
    pub native: Duration,
    pub runs: String,
}

impl Measured {
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
        match (&self.measured, self.bar) {
            (Err(_), _) => Verdict::NotMeasured,
            (Ok(_), None) => Verdict::Open,
            (Ok(measured), Some(bar)) if measured.ratio <= bar => Verdict::Met,
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
        let bar = row.bar.map(|bar| format!("<= {bar}x")).unwrap_or_default();
        let line = match &row.measured {
            Ok(Measured { ratio, codebox, native, runs }) => {
                let (codebox, native) = (shown(*codebox), shown(*native));
                format!("| {} | {bar} | {ratio:.3}x | {verdict} | {codebox} | {native} | {runs} |", row.what)
            }
            Err(why) => {
                let why = why.lines().next().unwrap_or_default().replace('|', "/");
                format!("| {} | {bar} | | {verdict} | | | {why} |", row.what)
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n{facts}");
    text
}

fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_its_verdict_or_why_there_is_none() {
        let row = |measured| Row { what: "start", bar: Some(1.3), measured };
        let took = |ms| {
            let medians = Medians { one: Duration::from_millis(ms), other: Duration::from_millis(10) };
            row(Ok(Measured::of(&medians, "5 each".into())))
        };
        let open = Row { bar: None, ..took(14) };
        let rows = [took(13), took(14), row(Err("no network\nat all".into())), open];
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
