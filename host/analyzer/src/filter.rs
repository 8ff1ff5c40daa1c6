//! The system calls of the analyzer's processes: the zygote, which waits for requests, and the workers, which parse.
//!
//! Any other call kills the process. None of the allowed calls opens a file, creates a socket or starts a program.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// The calls of a worker: input and output on open descriptors, memory, signals, limits and exit.
const WORKER_CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_getrlimit,
    libc::SYS_setitimer,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The additional calls of the zygote, which forks workers, waits for them and applies their filter.
const ZYGOTE_CALLS: &[i64] = &[
    libc::SYS_pipe2,
    libc::SYS_wait4,
    libc::SYS_ppoll,
    libc::SYS_seccomp,
    libc::SYS_set_robust_list,
    libc::SYS_gettid,
    libc::SYS_getpid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
];

/// The flags of `clone` that create a thread, or share more with a child than its memory image.
const FORBIDDEN_CLONE_FLAGS: u64 = (libc::CLONE_VM
    | libc::CLONE_THREAD
    | libc::CLONE_FILES
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_PTRACE) as u64;

/// A compiled filter that can be applied to a process.
pub struct Filter(BpfProgram);

impl Filter {
    /// Builds the filter of the zygote, which also applies to all processes that it forks.
    pub fn zygote() -> io::Result<Self> {
        let mut calls = worker()?;
        calls.extend(ZYGOTE_CALLS.iter().map(|call| (*call, Vec::new())));
        calls.insert(
            libc::SYS_clone,
            vec![argument_rule(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(FORBIDDEN_CLONE_FLAGS), 0)?],
        );
        // The options are `PR_SET_PDEATHSIG` of the workers, `PR_SET_NO_NEW_PRIVS` and `PR_SET_SECCOMP` of their
        // filter, and `PR_SET_VMA`, by which newer C libraries name memory.
        let prctls = [libc::PR_SET_PDEATHSIG, libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_SECCOMP, libc::PR_SET_VMA];
        let prctls = prctls.iter().map(|option| equality_rule(0, u64::from(option.cast_unsigned())));
        calls.insert(libc::SYS_prctl, prctls.collect::<io::Result<_>>()?);
        Self::of(calls)
    }

    /// Builds the filter of a worker. It is stricter than the inherited one: a worker cannot fork or send signals.
    pub fn worker() -> io::Result<Self> {
        Self::of(worker()?)
    }

    fn of(calls: BTreeMap<i64, Vec<SeccompRule>>) -> io::Result<Self> {
        let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        let filter = SeccompFilter::new(calls, SeccompAction::KillProcess, SeccompAction::Allow, arch);
        filter.and_then(TryInto::try_into).map(Self).map_err(io::Error::other)
    }

    /// Applies the filter to this process permanently.
    pub fn apply(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(io::Error::other)
    }
}

fn worker() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = WORKER_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    // Memory cannot be made executable.
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    let non_executable =
        || argument_rule(2, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(executable), 0).map(|rule| vec![rule]);
    calls.insert(libc::SYS_mmap, non_executable()?);
    calls.insert(libc::SYS_mprotect, non_executable()?);
    // Only the limits of the process itself can be changed.
    calls.insert(libc::SYS_prlimit64, vec![equality_rule(0, 0)?]);
    Ok(calls)
}

fn equality_rule(argument: u8, value: u64) -> io::Result<SeccompRule> {
    argument_rule(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn argument_rule(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, length, operator, value).map_err(io::Error::other)?;
    SeccompRule::new(vec![condition]).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
