//! Request of a cell, and checks of what it has beyond that of its session.

use codebox_core::path::MappedPath as _;
use codebox_core::{GuestPath, InputFile, Isolation, LimitOverrides, ResultKind, ReturnedFile, RunnerError, Stdin};
use codebox_service::{Preference, Program, Request};

use super::Cell;

/// Returns the request of a cell: that of the session, with the cell's own limits.
pub(super) fn request_of(cell: Cell, session: &Request) -> Result<Request, RunnerError> {
    let Cell { text, limits, stdin, files, returns, number } = cell;
    let LimitOverrides { wall, cpu, output, .. } = limits;
    if limits != (LimitOverrides { wall, cpu, output, ..LimitOverrides::default() }) {
        let line = "a cell can set its limits on wall time, processor time and output only";
        let fix = "set the other limits when the session is created";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    }
    let own = session.limits;
    let limits = LimitOverrides { wall: wall.or(own.wall), cpu: cpu.or(own.cpu), output: output.or(own.output), ..own };
    check_cpu_limit(limits, session.isolation)?;
    check_input(&stdin, &files, session)?;
    check_returned(&returns, session)?;
    let program = Program::Inline(text);
    Ok(Request { program, limits, stdin, files, returns, cell_number: number, ..session.clone() })
}

/// Checks the input of a cell. An error of the backend would end the interpreter.
fn check_input(stdin: &Stdin, files: &[InputFile], session: &Request) -> Result<(), RunnerError> {
    if *stdin != Stdin::Empty && is_container(session.isolation) {
        let line = "a cell has no standard input in a container";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("pass the input as a file"));
    }
    for InputFile { path, .. } in files {
        if !is_private(path, session) {
            let line = format!("cannot write the file {path} for a cell: it is not in a private directory");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use a path below /work or /tmp"));
        }
    }
    Ok(())
}

fn check_returned(paths: &[GuestPath], session: &Request) -> Result<(), RunnerError> {
    let refused = |line: String, fix: &str| Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    if paths.len() > ReturnedFile::MAX_COUNT {
        return refused(
            format!("a cell returns at most {} files", ReturnedFile::MAX_COUNT),
            "return them with several cells",
        );
    }
    match paths.iter().find(|path| !is_private(path, session)) {
        None => Ok(()),
        Some(path) => refused(
            format!("cannot return the file {path}: it is not in a private directory"),
            "use a path below /work or /tmp; files in granted directories are on this machine",
        ),
    }
}

/// Returns true if a path is below the private directories of a session.
fn is_private(path: &GuestPath, session: &Request) -> bool {
    [GuestPath::work(), GuestPath::tmp()].iter().any(|dir| path.is_within(dir) && path != dir)
        && !session.dirs.iter().any(|grant| path.is_within(&grant.guest))
}

/// Returns true for a session in a container, here or in a virtual machine.
fn is_container(isolation: Preference) -> bool {
    matches!(isolation, Preference::Only(Isolation::Container | Isolation::Vm))
}

/// Refuses a limit on the processor time of a cell in a container, where it cannot be held.
pub(super) fn check_cpu_limit(limits: LimitOverrides, isolation: Preference) -> Result<(), RunnerError> {
    if !is_container(isolation) || limits.cpu.is_none_or(|cpu| cpu.at().is_none()) {
        return Ok(());
    }
    let line = "cells in containers have no limit on processor time";
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("limit the wall time"))
}
