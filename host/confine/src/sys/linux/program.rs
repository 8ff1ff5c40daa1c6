//! A single seccomp program for a table of system calls.
//!
//! A filter of seccompiler has one action for all its calls and searches for a call linearly. A kernel runs a new
//! filter for each of its 900 call numbers in order to cache which are always allowed, so that applying one filter for
//! each action takes half a millisecond in total. This module uses seccompiler's conditions, but a binary search and
//! several actions, which takes a quarter of that time.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, sock_filter};

use crate::ConfineError;

/// The treatment of one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyscallPolicy {
    /// The same action for all arguments.
    Always(SeccompAction),
    /// The call is allowed if one of the rules matches, and is otherwise treated as an unlisted call.
    AllowedIf(Vec<SeccompRule>),
}

/// The treatment of each listed system call, by its number.
pub(super) type Table = BTreeMap<u32, SyscallPolicy>;

/// The offset of the call's number in the data that the kernel passes to a filter.
const NUMBER: u32 = 0;
const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const JUMP_IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Assembles the program that treats calls as `table` says, and others with `unlisted`.
///
/// Calls of another architecture, such as those of 32-bit code in a 64-bit process, kill the process.
pub(super) fn assemble(table: &Table, unlisted: &SeccompAction, arch: TargetArch) -> Result<BpfProgram, ConfineError> {
    let mut program = check_architecture(arch)?;
    program.push(statement(LOAD, NUMBER));
    program.append(&mut search(&segments(table, unlisted), unlisted)?);
    Ok(program)
}

/// Returns the check of the architecture: a filter without rules consists of that check and one action, which is
/// removed.
fn check_architecture(arch: TargetArch) -> Result<BpfProgram, ConfineError> {
    let empty = BTreeMap::new();
    let filter = SeccompFilter::new(empty, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    let mut program: BpfProgram = filter.try_into()?;
    program.pop();
    Ok(program)
}

/// Divides the range of all numbers into segments with the same treatment, each given by its first number.
fn segments(table: &Table, unlisted: &SeccompAction) -> Vec<(u32, SyscallPolicy)> {
    let gap = SyscallPolicy::Always(unlisted.clone());
    let mut segments = vec![(0, gap.clone())];
    for (&number, policy) in table {
        for (start, policy) in [(number, policy), (number + 1, &gap)] {
            if segments.last().is_some_and(|last| last.0 == start) {
                segments.pop();
            }
            if segments.last().is_none_or(|last| last.1 != *policy) {
                segments.push((start, policy.clone()));
            }
        }
    }
    segments
}

/// Assembles a binary search for the segment of the loaded number.
fn search(segments: &[(u32, SyscallPolicy)], unlisted: &SeccompAction) -> Result<BpfProgram, ConfineError> {
    let (below, above) = segments.split_at(segments.len() / 2);
    let Some((first, policy)) = above.first() else {
        return Ok(Vec::new());
    };
    if below.is_empty() {
        return Ok(leaf(policy, unlisted));
    }
    let mut below = search(below, unlisted)?;
    let mut above = search(above, unlisted)?;
    // A conditional jump can skip at most 255 instructions, which may not be enough here.
    let mut program = vec![
        sock_filter { jt: 0, jf: 1, ..statement(JUMP_IF_AT_LEAST, *first) },
        statement(JUMP, u32::try_from(below.len()).map_err(|_| too_large(below.len()))?),
    ];
    program.append(&mut below);
    program.append(&mut above);
    Ok(program)
}

fn leaf(policy: &SyscallPolicy, unlisted: &SeccompAction) -> BpfProgram {
    match policy {
        SyscallPolicy::Always(action) => vec![return_action(action)],
        SyscallPolicy::AllowedIf(rules) => {
            // A rule that does not match skips the one instruction after it.
            let rules = rules.iter().flat_map(|rule| {
                let mut rule = BpfProgram::from(rule.clone());
                rule.push(return_action(&SeccompAction::Allow));
                rule
            });
            rules.chain([return_action(unlisted)]).collect()
        }
    }
}

fn return_action(action: &SeccompAction) -> sock_filter {
    statement(RETURN, action.clone().into())
}

fn statement(code: u32, k: u32) -> sock_filter {
    // Operation codes have 16 bits; the type of the constants is wider.
    let [low, high, ..] = code.to_le_bytes();
    sock_filter { code: u16::from_le_bytes([low, high]), jt: 0, jf: 0, k }
}

fn too_large(instructions: usize) -> seccompiler::BackendError {
    seccompiler::BackendError::FilterTooLarge(instructions)
}

#[cfg(test)]
mod tests;
