//! The system call filter: building and applying it.

use std::io;

use codebox_core::{LayerState, SandboxLayer};
use libc::c_long;
use seccompiler::SeccompAction::{Allow, Errno, KillProcess};
use seccompiler::{BpfProgram, SeccompAction, TargetArch};

use super::program::{SyscallPolicy, Table, assemble};
use super::{arguments, calls};
use crate::layers::layer;
use crate::{ConfineError, Openat2, Rules};

/// Builds the filter of this process without applying it. Returns `None` for an architecture without a list of calls.
pub(super) fn build(rules: &Rules) -> Result<Option<BpfProgram>, ConfineError> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => TargetArch::x86_64,
        "aarch64" => TargetArch::aarch64,
        _ => return Ok(None),
    };
    assemble(&table(rules)?, &errno(libc::EPERM), arch).map(Some)
}

/// Applies a filter to every thread of the process.
pub(super) fn apply(filter: Option<BpfProgram>) -> Result<SandboxLayer, ConfineError> {
    let Some(filter) = filter else {
        let arch = std::env::consts::ARCH;
        return Ok(seccomp(LayerState::Unavailable, format!("no system call filter for {arch}")));
    };
    match seccompiler::apply_filter_all_threads(&filter) {
        Ok(()) => {
            let detail = "allowed system calls only: no program execution, processes or sockets";
            Ok(seccomp(LayerState::Held, detail.to_owned()))
        }
        Err(seccompiler::Error::Seccomp(error)) if is_absent(&error) => {
            Ok(seccomp(LayerState::Unavailable, "not in this kernel".to_owned()))
        }
        Err(error) => Err(ConfineError::ApplyFilter(error)),
    }
}

fn table(rules: &Rules) -> Result<Table, ConfineError> {
    let always = [
        (calls::ALLOWED, Allow),
        (calls::ALLOWED_LEGACY, Allow),
        (calls::HOSTILE, KillProcess),
        (calls::SOCKETS, errno(libc::EACCES)),
        (calls::ABSENT, errno(libc::ENOSYS)),
    ];
    let always = always.into_iter().flat_map(|(calls, action)| {
        calls.iter().map(move |&call| (number(call), SyscallPolicy::Always(action.clone())))
    });
    let restricted = arguments::restricted(rules.exec_mappings)?.into_iter();
    let restricted = restricted.map(|(call, rules)| (number(call), SyscallPolicy::AllowedIf(rules)));
    let passed_socket_calls = arguments::passed_socket_calls(rules.network)?.into_iter();
    let passed_socket_calls = passed_socket_calls.map(|(call, rules)| (number(call), SyscallPolicy::AllowedIf(rules)));
    let openat2 = match rules.openat2 {
        Openat2::Allowed => Allow,
        Openat2::Denied => errno(libc::ENOSYS),
    };
    let openat2 = (number(libc::SYS_openat2), SyscallPolicy::Always(openat2));
    // The calls on received connections come last and replace the denials.
    Ok(always.chain(restricted).chain([openat2]).chain(passed_socket_calls).collect())
}

/// Returns the lower half of the register, which is what the kernel shows to a filter.
fn number(call: c_long) -> u32 {
    call as u32
}

fn errno(number: i32) -> SeccompAction {
    Errno(number.cast_unsigned())
}

/// Returns true if seccomp is missing: a kernel without the system call returns `ENOSYS`, and a kernel without filters
/// `EINVAL`.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

fn seccomp(state: LayerState, detail: impl Into<String>) -> SandboxLayer {
    layer("seccomp", state, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExecMappings;

    #[test]
    fn lists_no_call_twice() {
        let lists = [calls::ALLOWED, calls::ALLOWED_LEGACY, calls::HOSTILE, calls::SOCKETS, calls::ABSENT];
        let restricted = arguments::restricted(ExecMappings::Denied).expect("the lists are valid rules");
        let listed = lists.iter().map(|list| list.len()).sum::<usize>() + restricted.len() + 1;
        assert_eq!(table(&Rules::default()).expect("a table").len(), listed);
    }
}
