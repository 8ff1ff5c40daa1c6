//! Starts the probe and reads its output.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

/// The result of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The attempt succeeded with this output.
    Ok(String),
    /// The attempt failed with a system error.
    Errno(i32),
    /// The attempt failed with another error.
    Error(String),
    /// The process was not confined for this reason and made no attempt.
    Refused(String),
    /// A signal ended the process.
    Signal(i32),
}

/// The output of a probe.
pub struct Report {
    /// The sandbox layers, each as `NAME STATE DETAIL`.
    pub layers: Vec<String>,
    /// The duration of confinement, in nanoseconds.
    pub elapsed_ns: u128,
    /// The result of the attempt.
    pub outcome: Outcome,
}

/// A confined process that tries one action.
pub struct Probe {
    exec_mappings: &'static str,
    threads: &'static str,
    words: Vec<String>,
}

impl Probe {
    /// Creates a probe without grants, other threads and executable mappings.
    pub fn new(action: &str) -> Self {
        Probe { exec_mappings: "denied", threads: "alone", words: vec![action.to_owned()] }
    }

    pub fn operands(&mut self, operands: &[String]) -> &mut Self {
        self.words.extend_from_slice(operands);
        self
    }

    pub fn read(&mut self, path: &str) -> &mut Self {
        self.operands(&["+r".to_owned(), path.to_owned()])
    }

    pub fn read_write(&mut self, path: &str) -> &mut Self {
        self.operands(&["+w".to_owned(), path.to_owned()])
    }

    pub fn with_passed_sockets(&mut self) -> &mut Self {
        self.operands(&["+net".to_owned()])
    }

    pub fn with_executable_mappings(&mut self) -> &mut Self {
        self.exec_mappings = "allowed";
        self
    }

    pub fn with_running_thread(&mut self) -> &mut Self {
        self.threads = "threaded";
        self
    }

    /// Runs the probe to completion.
    pub fn run(&self) -> Report {
        let output = Command::new(env!("CARGO_BIN_EXE_codebox-confine-probe"))
            .args([self.exec_mappings, self.threads])
            .args(&self.words)
            .stdin(Stdio::null())
            .output()
            .expect("the probe starts");
        let text = String::from_utf8(output.stdout).expect("the output is UTF-8");
        let values_of = |prefix: &'static str| text.lines().filter_map(move |line| line.strip_prefix(prefix));
        let one = |prefix| values_of(prefix).next().map(str::to_owned);
        let outcome = one("ok ")
            .map(Outcome::Ok)
            .or_else(|| one("errno ").map(|number| Outcome::Errno(number.parse().expect("a number"))))
            .or_else(|| one("error ").map(Outcome::Error))
            .or_else(|| one("refused ").map(Outcome::Refused))
            .or_else(|| output.status.signal().map(Outcome::Signal));
        let error_text = String::from_utf8_lossy(&output.stderr);
        Report {
            layers: values_of("layer ").map(str::to_owned).collect(),
            elapsed_ns: one("took ").map_or(0, |elapsed_ns| elapsed_ns.parse().expect("a number")),
            outcome: outcome.unwrap_or_else(|| panic!("no answer: {text}{error_text}")),
        }
    }
}
