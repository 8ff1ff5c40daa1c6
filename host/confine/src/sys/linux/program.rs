//! One seccomp program for a table of system calls.
//!
//! seccompiler's filters give one answer for all calls they list and look for the call from the first to
//! the last. A kernel runs a new filter for each of its 900 call numbers to remember which are always
//! allowed, so a filter per answer takes half a millisecond to apply in all. Here the conditions are
//! seccompiler's, while the search is binary and the answers differ, which takes a quarter of that.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, sock_filter};

use crate::ConfineError;

/// What happens to one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// This, whatever its arguments are.
    Always(SeccompAction),
    /// It is allowed if one of the rules matches, and otherwise treated as one that is not listed.
    AllowedIf(Vec<SeccompRule>),
}

/// The answer to each listed system call, by its number.
pub(super) type Table = BTreeMap<u32, Answer>;

/// Offset of the call's number in what the kernel shows to a filter.
const NUMBER: u32 = 0;
const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const JUMP_IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Makes the program that answers as `table` says, and `unlisted` otherwise.
///
/// Calls of another architecture, as 32-bit code in a 64-bit process makes them, kill the process.
pub(super) fn assemble(table: &Table, unlisted: &SeccompAction, arch: TargetArch) -> Result<BpfProgram, ConfineError> {
    let mut program = check_architecture(arch)?;
    program.push(statement(LOAD, NUMBER));
    program.append(&mut search(&segments(table, unlisted), unlisted)?);
    Ok(program)
}

/// A filter without rules is a check of the architecture and one answer, which is taken off.
fn check_architecture(arch: TargetArch) -> Result<BpfProgram, ConfineError> {
    let empty = BTreeMap::new();
    let filter = SeccompFilter::new(empty, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    let mut program: BpfProgram = filter.try_into()?;
    program.pop();
    Ok(program)
}

/// The whole range of numbers as the first of each stretch with the same answer.
fn segments(table: &Table, unlisted: &SeccompAction) -> Vec<(u32, Answer)> {
    let gap = Answer::Always(unlisted.clone());
    let mut segments = vec![(0, gap.clone())];
    for (&number, answer) in table {
        for (start, answer) in [(number, answer), (number + 1, &gap)] {
            if segments.last().is_some_and(|last| last.0 == start) {
                segments.pop();
            }
            if segments.last().is_none_or(|last| last.1 != *answer) {
                segments.push((start, answer.clone()));
            }
        }
    }
    segments
}

/// Finds the segment of the loaded number, by halves.
fn search(segments: &[(u32, Answer)], unlisted: &SeccompAction) -> Result<BpfProgram, ConfineError> {
    let (below, above) = segments.split_at(segments.len() / 2);
    let Some((first, answer)) = above.first() else {
        return Ok(Vec::new());
    };
    if below.is_empty() {
        return Ok(leaf(answer, unlisted));
    }
    let mut below = search(below, unlisted)?;
    let mut above = search(above, unlisted)?;
    // A conditional jump reaches 255 instructions far and this one can have to go further.
    let mut program = vec![
        sock_filter { jt: 0, jf: 1, ..statement(JUMP_IF_AT_LEAST, *first) },
        statement(JUMP, u32::try_from(below.len()).map_err(|_| too_large(below.len()))?),
    ];
    program.append(&mut below);
    program.append(&mut above);
    Ok(program)
}

fn leaf(answer: &Answer, unlisted: &SeccompAction) -> BpfProgram {
    match answer {
        Answer::Always(action) => vec![give(action)],
        Answer::AllowedIf(rules) => {
            // A rule that does not match jumps over the one instruction that follows it.
            let rules = rules.iter().flat_map(|rule| {
                let mut rule = BpfProgram::from(rule.clone());
                rule.push(give(&SeccompAction::Allow));
                rule
            });
            rules.chain([give(unlisted)]).collect()
        }
    }
}

fn give(action: &SeccompAction) -> sock_filter {
    statement(RETURN, action.clone().into())
}

fn statement(code: u32, k: u32) -> sock_filter {
    // Operation codes are 16 bits wide; the constants are wider than they need be.
    let [low, high, ..] = code.to_le_bytes();
    sock_filter { code: u16::from_le_bytes([low, high]), jt: 0, jf: 0, k }
}

fn too_large(instructions: usize) -> seccompiler::BackendError {
    seccompiler::BackendError::FilterTooLarge(instructions)
}

#[cfg(test)]
mod tests;
