//! Checks of reports that several topics use.

use codebox_testkit::Report;

/// Checks the name, the message and the program line of the reported error.
pub fn check_error(report: &Report, name: &str, value: &str, line: u32) -> Result<(), String> {
    check_error_at(report, name, line)?;
    let error = report.at("/error");
    if error["value"] == value { Ok(()) } else { Err(format!("error is {error}")) }
}

/// Checks the name and the program line of the reported error.
pub fn check_error_at(report: &Report, name: &str, line: u32) -> Result<(), String> {
    let error = report.at("/error");
    if error["name"] == name && error["line"] == line { Ok(()) } else { Err(format!("error is {error}")) }
}
