//! Looks at reports that several topics take.

use codebox_testkit::Report;

/// The error that is reported has this name and message, and this line of the program.
pub fn is_error(report: &Report, name: &str, value: &str, line: u32) -> Result<(), String> {
    is_error_at(report, name, line)?;
    let error = report.at("/error");
    if error["value"] == value { Ok(()) } else { Err(format!("error is {error}")) }
}

/// The error that is reported has this name, and this line of the program.
pub fn is_error_at(report: &Report, name: &str, line: u32) -> Result<(), String> {
    let error = report.at("/error");
    if error["name"] == name && error["line"] == line { Ok(()) } else { Err(format!("error is {error}")) }
}
