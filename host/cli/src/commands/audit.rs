//! `codebox audit`.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use codebox_core::{ResultKind, RunnerError, exit};
use codebox_runner::Runner;
use codebox_service::{AuditError, AuditLog, AuditRecord, Event};

use crate::answer;
use crate::args::AuditCommand;
use crate::render::{Escaped, Table, escape_json, time};

/// Lists, shows, exports, removes or checks records.
pub(super) fn audit(command: AuditCommand, runner: &Runner) -> Result<u8, RunnerError> {
    let missing = || RunnerError::new(ResultKind::InternalError, "this runner has no audit log");
    let log = runner.audit_log()?.ok_or_else(missing)?;
    match command {
        AuditCommand::List { last, json: true } => {
            let mut records = VecDeque::new();
            each(&log, |record| keep_last(&mut records, record, last))?;
            answer::print_json(&serde_json::json!({ "records": records.iter().rev().collect::<Vec<_>>() }))
        }
        AuditCommand::List { last, json: false } => answer::print(&listed(&log, last)?),
        AuditCommand::Show { id, json } => {
            let mut found = Vec::new();
            // The ends of a session's cells name the cells, and the end of a call names its job.
            let mut cells = BTreeSet::new();
            each(&log, |record| cells.extend(part_of(&record.event, &id)))?;
            each(&log, |record| {
                if is_about(&record.event, &id, &cells) {
                    found.push(record);
                }
            })?;
            if found.is_empty() {
                let line = format!("there is no record of {}", Escaped(&id));
                return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox audit list"));
            }
            match json {
                true => answer::print_json(&serde_json::json!({ "records": found })),
                false => answer::print(&shown(&found)?),
            }
        }
        AuditCommand::Export { json: _ } => export(&log),
        AuditCommand::Prune { older_than } => {
            let before = SystemTime::now().checked_sub(older_than).unwrap_or(UNIX_EPOCH);
            let before = before.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let removed = log.prune(u64::try_from(before).unwrap_or(u64::MAX)).map_err(|error| failed(&error))?;
            answer::print(&format!("removed {removed} records\n"))
        }
        AuditCommand::Reset => match log.reset().map_err(|error| failed(&error))? {
            Some(kept) => {
                answer::print(&format!("a new log begins; the old one is {}\n", Escaped(&kept.display().to_string())))
            }
            None => Err(RunnerError::new(ResultKind::InvalidRequest, "the audit log is intact")
                .with_fix("use codebox audit prune to remove old records")),
        },
        AuditCommand::Verify { expect, json } => {
            let checked = log.verify(expect.as_deref()).map_err(|error| failed(&error))?;
            let status = if checked.is_ok() { 0 } else { exit::FAILURE };
            let printed = match (&checked, json) {
                (checked, true) => answer::print_json(&match checked {
                    Ok(verified) => serde_json::json!({ "intact": true, "log": verified }),
                    Err(broken) => serde_json::json!({ "intact": false, "broken": broken }),
                })?,
                (Ok(verified), false) => answer::print(&format!(
                    "{} records are intact, {} were pruned\nlast  {} {}\n",
                    verified.records, verified.pruned, verified.last, verified.digest
                ))?,
                (Err(broken), false) => {
                    let line = format!("the audit log was changed: {}", Escaped(&broken.reason));
                    return Err(RunnerError::new(ResultKind::InternalError, line)
                        .with_fix("compare it with a copy, and begin a new one with codebox audit reset"));
                }
            };
            Ok(if printed == 0 { status } else { printed })
        }
    }
}

fn each(log: &AuditLog, mut visit: impl FnMut(AuditRecord)) -> Result<(), RunnerError> {
    log.each(&mut visit).map_err(|error| failed(&error))
}

/// Adds an item to a list of the last ones.
fn keep_last<T>(items: &mut VecDeque<T>, item: T, last: usize) {
    items.push_back(item);
    if items.len() > last {
        items.pop_front();
    }
}

/// Prints all records, one a line.
fn export(log: &AuditLog) -> Result<u8, RunnerError> {
    let mut status = Ok(0);
    each(log, |record| {
        if matches!(status, Ok(0)) {
            let line =
                serde_json::to_string(&record).map_err(|error| RunnerError::of(ResultKind::InternalError, &error));
            status = line.and_then(|line| answer::print(&format!("{}\n", escape_json(&line))));
        }
    })?;
    status
}

fn failed(error: &AuditError) -> RunnerError {
    let fix = match error.source.kind() {
        io::ErrorKind::InvalidData => "see codebox audit verify",
        _ => "make the directory readable and writable for this user",
    };
    RunnerError::of(ResultKind::InternalError, error).with_fix(fix)
}

/// Returns the id of a cell or command of what has this id, or of the call for which this job has run, if the event is about one.
fn part_of(event: &Event, session: &str) -> Option<String> {
    match event {
        Event::Returned { id, job, .. } if job.as_deref() == Some(session) => Some(id.clone()),
        Event::Started(started) if [&started.session, &started.in_box].contains(&&Some(session.to_owned())) => {
            Some(started.id.clone())
        }
        _ => None,
    }
}

fn is_about(event: &Event, wanted: &str, cells: &BTreeSet<String>) -> bool {
    match event {
        Event::Started(started) => started.id == wanted || cells.contains(&started.id),
        Event::Ended { id, .. } | Event::Interrupted { id } => id == wanted || cells.contains(id),
        Event::Called(call) => call.id == wanted || cells.contains(&call.id),
        Event::Returned { id, .. } => id == wanted || cells.contains(id),
        Event::Box { name, .. } => name == wanted,
        Event::Session { session, other, .. } => session == wanted || other.as_deref() == Some(wanted),
        Event::Reset { .. } | Event::Pruned { .. } | Event::Refused { .. } => false,
    }
}

/// Returns the last records with the ends of their jobs, the latest first.
fn listed(log: &AuditLog, last: usize) -> Result<String, RunnerError> {
    let mut rows: VecDeque<Row> = VecDeque::new();
    each(log, |record| {
        let at = time(record.time_ms);
        let none = || "-".to_owned();
        let ends_later = matches!(record.event, Event::Started(_) | Event::Called(_));
        let cells = match record.event {
            Event::Started(started) => {
                let what = match (&started.session, &started.in_box) {
                    (Some(session), _) => format!("cell of {session}"),
                    (None, Some(name)) => format!("{} in box {name}", started.program.name),
                    (None, None) => format!("{} {}", started.program.language, started.program.name),
                };
                let of = started.tool.as_ref().map_or_else(String::new, |tool| format!(" for tool {tool}"));
                let (what, grants) = (format!("{what}{of}"), grants(&started));
                [at, started.id, what, started.backend, grants, none()]
            }
            Event::Called(call) => [at, call.id, format!("tool {}", call.tool), none(), none(), none()],
            Event::Session { session, action, other } => {
                let action = serde_json::to_value(action).ok().and_then(|name| name.as_str().map(str::to_owned));
                let of = other.as_ref().map_or_else(String::new, |other| format!(" ({other})"));
                [at, session, format!("session {}{of}", action.unwrap_or_default()), none(), none(), none()]
            }
            Event::Box { name, action, start: _, call, omitted } => {
                let action = serde_json::to_value(action).ok().and_then(|name| name.as_str().map(str::to_owned));
                let of = call.as_ref().map_or_else(String::new, |call| format!(" {}", call.name));
                let end = call.map_or_else(none, |call| call.status.to_string());
                let omitted = if omitted > 0 { format!(" ({omitted} calls before it)") } else { String::new() };
                [at, name, format!("box {}{of}{omitted}", action.unwrap_or_default()), none(), none(), end]
            }
            Event::Refused { program, tool, kind, .. } => {
                let what = tool.map_or(program, |tool| format!("tool {tool}"));
                [at, none(), format!("{what} refused"), none(), none(), kind]
            }
            Event::Reset { kept, .. } => [at, none(), format!("log reset ({kept})"), none(), none(), none()],
            Event::Pruned { records, .. } => [at, none(), format!("{records} records removed"), none(), none(), none()],
            Event::Ended { id, kind, exit_code, .. } => {
                return set_end(&mut rows, &id, format!("{kind} ({exit_code})"));
            }
            Event::Returned { id, kind, .. } => return set_end(&mut rows, &id, kind),
            Event::Interrupted { id } => return set_end(&mut rows, &id, "interrupted".to_owned()),
        };
        keep_last(&mut rows, Row { cells, ends_later }, last);
    })?;
    let mut table = Table::new(["TIME", "ID", "WHAT", "WHERE", "GRANTS", "END"]);
    rows.into_iter().rev().for_each(|row| table.row(row.cells));
    Ok(table.to_string())
}

/// Row of the list.
struct Row {
    cells: [String; 6],
    /// True if the end is in another record.
    ends_later: bool,
}

/// Sets the end of a job or a call that is listed.
fn set_end(rows: &mut VecDeque<Row>, id: &str, end: String) {
    if let Some(row) = rows.iter_mut().rev().find(|row| row.ends_later && row.cells[1] == id) {
        row.cells[5] = end;
    }
}

/// Returns the kinds of grants of a job.
fn grants(started: &codebox_service::audit::Started) -> String {
    let grants = &started.grants;
    let kinds = [
        ("dir", grants.dirs.len()),
        ("net", grants.hosts.len()),
        ("env", grants.env.len()),
        ("secret", grants.secrets.len()),
        ("tool", grants.tools.len()),
    ];
    let given = kinds.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}:{count}"));
    let text = given.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "-".to_owned() } else { text }
}

fn shown(records: &[AuditRecord]) -> Result<String, RunnerError> {
    let mut text = String::new();
    for record in records {
        let event = serde_json::to_string_pretty(&record.event);
        let event = event.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        text.push_str(&format!("{} {}\n{}\n", record.seq, time(record.time_ms), escape_json(&event)));
    }
    Ok(text)
}
