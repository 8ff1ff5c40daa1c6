//! Result table of the measurement.

use std::fmt::Write;

/// Bound for a measured value.
#[derive(Debug, Clone, Copy)]
pub enum Threshold {
    AtMost(f64),
    AtLeast(f64),
    /// Measured for comparison only.
    None,
}

/// Measured value and its bar.
pub struct Row {
    pub label: &'static str,
    pub threshold: Threshold,
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
    NotApplicable,
}

impl Row {
    pub fn verdict(&self) -> Verdict {
        let met = match (self.threshold, self.measured) {
            (Threshold::None, _) | (_, None) => return Verdict::NotApplicable,
            (Threshold::AtMost(threshold), Some(value)) => value <= threshold,
            (Threshold::AtLeast(threshold), Some(value)) => value >= threshold,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

/// Renders the rows as a Markdown table.
pub fn render(rows: &[Row]) -> String {
    let mut text = String::from("| what | bar | measured | | detail |\n|---|---|---|---|---|\n");
    for row in rows {
        let Row { label, threshold, measured, unit, detail } = row;
        let threshold = match threshold {
            Threshold::AtMost(threshold) => format!("<= {threshold}{unit}"),
            Threshold::AtLeast(threshold) => format!(">= {threshold}{unit}"),
            Threshold::None => String::new(),
        };
        let measured = measured.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}{unit}"));
        let verdict = match row.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::NotApplicable => "",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {label} | {threshold} | {measured} | {verdict} | {detail} |");
    }
    text
}
