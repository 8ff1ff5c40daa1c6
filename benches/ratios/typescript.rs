//! Cost of stripping types from TypeScript, relative to parsing, which every stripper needs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use codebox_typescript::{parse_only, strip};

use super::program::program;
use super::table::{Row, Threshold};

const FILE: &str = "measured.ts";
const LINES: usize = 1000;

/// Strips and parses alternately and returns the ratio of the medians.
pub fn measure(rounds: usize) -> Row {
    let text = program(LINES);
    check(&text);
    let (mut stripping, mut parsing) = (Vec::new(), Vec::new());
    for _ in 0..rounds * 5 {
        stripping.push(time(|| drop(black_box(strip(FILE, &text)))));
        parsing.push(time(|| drop(black_box(parse_only(FILE, &text)))));
    }
    let (strip, parse) = (median(&mut stripping), median(&mut parsing));
    Row {
        label: "a TypeScript file of 1,000 lines: taking the types out vs parsing alone",
        threshold: Threshold::AtMost(3.0),
        measured: Some(strip.as_secs_f64() / parse.as_secs_f64()),
        unit: "x",
        detail: format!("{strip:.2?} vs {parse:.2?}, p50 of {} each, {} bytes", stripping.len(), text.len()),
    }
}

/// Panics if either operation does not do the work that is to be measured.
fn check(text: &str) {
    assert_eq!(text.lines().count(), LINES);
    assert!(parse_only(FILE, text).expect("analysis succeeds"), "the text is no TypeScript");
    let code = strip(FILE, text).expect("the text is TypeScript").code;
    for removed in ["interface", "implements", "declare", "namespace", "Lookup"] {
        assert!(!code.contains(removed), "{removed} was not removed");
    }
    for generated in ["class Store19", "this.items = items", "State19[\"Open\"]", "function group19"] {
        assert!(code.contains(generated), "{generated} is missing");
    }
}

fn time(operation: impl FnOnce()) -> Duration {
    let start = Instant::now();
    operation();
    start.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
