//! System calls that are allowed only with certain arguments.

use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCondition, SeccompRule};

use crate::{ExecMappings, SocketAccess};

/// A system call, and the alternative conditions under which it is allowed.
pub(super) type Restricted = (c_long, Vec<SeccompRule>);

/// `PAGEMAP_SCAN`, which finds the written pages of a mapping. It operates on a descriptor that was opened before.
const PAGEMAP_SCAN: u32 = 0xc060_6610;

/// `TCSETS2`, which sets the mode of a terminal.
const TCSETS2: u32 = 0x402c_542b;

/// Requests that concern only the descriptor. `TCSETS2` hides what is typed and passes single keys on. `TIOCSTI`, which types into the user's
/// terminal, is deliberately absent.
const IOCTLS: &[u32] = &[
    PAGEMAP_SCAN,
    libc::TCGETS as u32,
    TCSETS2,
    libc::TIOCGWINSZ as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
];

/// Commands of `fcntl`. Those that send signals (`F_SETOWN`, `F_SETSIG`, `F_NOTIFY`) are deliberately absent.
const FCNTLS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// Options of `prctl`. `PR_SET_VMA` names anonymous memory, which newer C libraries do on each allocation.
const PRCTLS: &[i32] = &[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA, libc::PR_GET_NO_NEW_PRIVS];

/// The set-user-id and set-group-id bits of a mode. `mkdir` ignores them.
const SET_ID_BITS: u64 = 0o6000;

/// Flags of `clone` that create another process, or give a thread another view of the system.
const NOT_A_THREAD: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_VFORK
    | libc::CLONE_PTRACE;
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_THREAD;

/// Returns the restricted calls. The list is valid only for the process that builds it.
pub(super) fn restricted(exec: ExecMappings) -> Result<Vec<Restricted>, BackendError> {
    let own_pid = u64::from(std::process::id());
    let threads = when(0, Qword, MaskedEq(bits(NOT_A_THREAD | THREAD)), bits(THREAD))?;
    // The process must not leave set-user-id or set-group-id programs behind.
    let ordinary_mode = |argument| when(argument, Dword, MaskedEq(SET_ID_BITS), 0).map(|rule| vec![rule]);
    // Limits can be read but not set.
    let no_new_limit = when(2, Qword, Eq, 0)?;
    #[cfg(target_arch = "x86_64")]
    let legacy = [(libc::SYS_open, ordinary_mode(2)?)];
    #[cfg(not(target_arch = "x86_64"))]
    let legacy = [];
    let restricted = vec![
        (libc::SYS_ioctl, one_of(1, IOCTLS.iter().map(|&request| u64::from(request)))?),
        (libc::SYS_fcntl, one_of(1, FCNTLS.iter().copied().map(bits))?),
        (libc::SYS_prctl, one_of(0, PRCTLS.iter().copied().map(bits))?),
        (libc::SYS_clone, vec![threads]),
        (libc::SYS_tgkill, one_of(0, [own_pid])?),
        (libc::SYS_kill, one_of(0, [own_pid])?),
        (libc::SYS_openat, ordinary_mode(3)?),
        (libc::SYS_fchmod, ordinary_mode(1)?),
        (libc::SYS_prlimit64, vec![no_new_limit]),
        (libc::SYS_mmap, protection(exec)?),
        (libc::SYS_mprotect, protection(exec)?),
    ];
    Ok(restricted.into_iter().chain(legacy).collect())
}

/// Returns the socket calls of a process that receives connections. None of them takes an address, and descriptors can
/// be received over one socket alone.
pub(super) fn passed_socket_calls(network: SocketAccess) -> Result<Vec<Restricted>, BackendError> {
    let SocketAccess::PassedSockets(control_socket) = network else { return Ok(Vec::new()) };
    let connected = || when(4, Qword, Eq, 0).map(|rule| vec![rule]);
    Ok(vec![
        (libc::SYS_sendto, connected()?),
        (libc::SYS_recvfrom, connected()?),
        (libc::SYS_recvmsg, one_of(0, [bits(control_socket)])?),
        (libc::SYS_shutdown, one_of(1, [bits(libc::SHUT_WR), bits(libc::SHUT_RDWR)])?),
    ])
}

/// Returns the conditions on memory protection. `PROT_EXEC` is allowed only if executable mappings are.
fn protection(exec: ExecMappings) -> Result<Vec<SeccompRule>, BackendError> {
    let flag = bits(libc::PROT_EXEC);
    let ordinary = when(2, Qword, MaskedEq(flag), 0)?;
    match exec {
        ExecMappings::Denied => Ok(vec![ordinary]),
        ExecMappings::Allowed => Ok(vec![ordinary, when(2, Qword, MaskedEq(flag), flag)?]),
    }
}

/// Compares 32 bits, because the kernel reads these arguments as 32-bit numbers.
fn one_of(index: u8, values: impl IntoIterator<Item = u64>) -> Result<Vec<SeccompRule>, BackendError> {
    values.into_iter().map(|value| when(index, Dword, Eq, value)).collect()
}

fn when(
    index: u8,
    length: SeccompCmpArgLen,
    comparison: seccompiler::SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(index, length, comparison, value)?])
}

/// Converts a C constant to the bits that the kernel sees, without sign extension.
fn bits(constant: i32) -> u64 {
    u64::from(constant.cast_unsigned())
}
