//! Result table of the measurement.

use std::fmt::Write;

/// Bound for a measured value.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    AtMost(f64),
    AtLeast(f64),
    /// Measured for comparison only.
    None,
}

/// Measured value and its bar.
pub struct Row {
    pub what: &'static str,
    pub bar: Bar,
    /// Value; `None` if this system cannot measure it.
    pub measured: Option<f64>,
    pub unit: &'static str,
    pub detail: String,
}

/// Relation of a measurement to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Met,
    Missed,
    /// No bar, or no measurement.
    Open,
}

impl Row {
    pub fn verdict(&self) -> Verdict {
        let met = match (self.bar, self.measured) {
            (Bar::None, _) | (_, None) => return Verdict::Open,
            (Bar::AtMost(bar), Some(value)) => value <= bar,
            (Bar::AtLeast(bar), Some(value)) => value >= bar,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

/// Renders the rows as a Markdown table.
pub fn render(rows: &[Row]) -> String {
    let mut text = String::from("| what | bar | measured | | detail |\n|---|---|---|---|---|\n");
    for row in rows {
        let Row { what, bar, measured, unit, detail } = row;
        let bar = match bar {
            Bar::AtMost(bar) => format!("<= {bar}{unit}"),
            Bar::AtLeast(bar) => format!(">= {bar}{unit}"),
            Bar::None => String::new(),
        };
        let measured = measured.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}{unit}"));
        let verdict = match row.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Open => "",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} | {bar} | {measured} | {verdict} | {detail} |");
    }
    text
}
