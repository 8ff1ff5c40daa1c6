//! `codebox jobs`.

use codebox_core::RunnerError;
use codebox_runner::Runner;
use codebox_service::{Record, State};

use crate::answer;
use crate::render::{Table, time};

/// Prints a line for each of the last jobs.
pub(super) fn jobs(last: usize, runner: &Runner) -> Result<u8, RunnerError> {
    answer::print(&listed(runner.jobs(last)?))
}

/// Prints the last jobs as one JSON document.
pub(super) fn jobs_as_json(last: usize, runner: &Runner) -> Result<u8, RunnerError> {
    answer::print_json(&runner.jobs(last)?)
}

fn listed(records: Vec<Record>) -> String {
    let mut table = Table::new(["JOB", "ACCEPTED", "PROGRAM", "LANGUAGE", "BACKEND", "STATE", "END"]);
    for record in records {
        let end = match (&record.state, record.kind, record.exit_code) {
            (State::Finished, Some(kind), Some(code)) => format!("{kind} ({code})"),
            _ => "-".to_owned(),
        };
        let state = record.state.as_str().to_owned();
        let accepted = time(record.accepted_ms);
        let program = match record.first_line {
            Some(line) => format!("{}: {}", record.program, shortened(&line)),
            None => record.program,
        };
        table.row([record.id, accepted, program, record.language, record.backend, state, end]);
    }
    table.to_string()
}

/// Most characters of a program's first line in the table.
const MAX_LINE: usize = 40;

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_each_job() {
        let record = Record {
            id: "0f".to_owned(),
            program: "a\nb.py".to_owned(),
            first_line: None,
            language: "python".to_owned(),
            backend: "wasm".to_owned(),
            accepted_ms: 1_000,
            state: State::Finished,
            ended_ms: Some(2_000),
            kind: Some("ok".to_owned()),
            exit_code: Some(0),
        };
        let interrupted = Record { state: State::Interrupted, kind: None, exit_code: None, ..record.clone() };
        let inline = Record {
            program: "-c".to_owned(),
            first_line: Some(format!("print({})", "1".repeat(50))),
            ..record.clone()
        };
        assert!(listed(vec![inline]).contains(&format!("  -c: print({}…  ", "1".repeat(34))));
        let text = listed(vec![record, interrupted]);
        assert_eq!(
            text,
            "JOB  ACCEPTED              PROGRAM  LANGUAGE  BACKEND  STATE        END\n\
             0f   1970-01-01T00:00:01Z  a\\nb.py  python    wasm     finished     ok (0)\n\
             0f   1970-01-01T00:00:01Z  a\\nb.py  python    wasm     interrupted  -\n"
        );
    }
}
