//! A seccomp filter that denies system calls that no job needs but the engines' default filters allow.
//!
//! The agent installs the filter before anything else starts, so that every process of the job has it in addition to
//! the filter of the engine, whichever engine that is. A process cannot remove the filter.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

/// Mode bits for set-user-ID and set-group-ID. In a granted directory the file belongs to the caller, who may be root.
const SET_ID_BITS: [u64; 2] = [0o4000, 0o2000];

/// Flags for new namespaces: mount, cgroup, UTS, IPC, user, PID, network.
const NAMESPACE_FLAGS: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Socket families that lead out of the container or into the kernel: `AF_VSOCK` to the host of a virtual machine,
/// `AF_ALG` to the kernel's crypto API.
const DENIED_SOCKET_FAMILIES: [u64; 2] = [40, 38];

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Installs the filters for this process and all processes that it starts.
pub(crate) fn apply() -> io::Result<()> {
    for (error, calls) in [(EPERM, denied_calls()), (ENOSYS, unsupported_calls())] {
        let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(error), arch);
        let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
    }
    apply_filter(&x32_filter()).map_err(io::Error::other)
}

/// The first system call number of the x32 ABI, which some kernels offer in addition to the 64-bit ABI.
///
/// The x32 ABI has the same calls under other numbers, so the lists in this module do not match them. No call of
/// another ABI that reaches this filter has a number in this range.
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

/// Returns a filter that denies all calls of the x32 ABI.
fn x32_filter() -> BpfProgram {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const JUMP_IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let statement = |code: u32, k: u32| {
        // BPF operation codes are 16 bits wide; the constants in `libc` are wider than necessary.
        let [low, high, ..] = code.to_le_bytes();
        sock_filter { code: u16::from_le_bytes([low, high]), jt: 0, jf: 0, k }
    };
    vec![
        // The system call number is the first field of `seccomp_data`.
        statement(LOAD, 0),
        sock_filter { jf: 1, ..statement(JUMP_IF_AT_LEAST, X32_SYSCALL_BIT) },
        statement(RETURN, SeccompAction::Errno(EPERM).into()),
        statement(RETURN, SeccompAction::Allow.into()),
    ]
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the calls that fail with `EPERM`, some of them only with certain arguments.
fn denied_calls() -> Calls {
    let mut calls = Calls::new();
    let unconditional = [
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
    ];
    calls.extend(unconditional.map(|call| (call, Vec::new())));
    let modes = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_openat, 3),
        (libc::SYS_mknodat, 2),
    ];
    #[cfg(target_arch = "x86_64")]
    let legacy = [(libc::SYS_chmod, 1), (libc::SYS_open, 2), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let legacy = [];
    for (call, argument) in modes.into_iter().chain(legacy) {
        calls.insert(call, any_bit(argument, &SET_ID_BITS));
    }
    calls.insert(libc::SYS_unshare, any_bit(0, &NAMESPACE_FLAGS));
    calls.insert(libc::SYS_clone, any_bit(0, &NAMESPACE_FLAGS));
    let family = |family: &u64| rule(0, SeccompCmpOp::Eq, *family);
    calls.insert(libc::SYS_socket, DENIED_SOCKET_FAMILIES.iter().filter_map(family).collect());
    calls
}

/// Returns the calls that fail with `ENOSYS`. Their arguments are in memory, which a filter cannot read, and programs
/// fall back to older calls.
fn unsupported_calls() -> Calls {
    let calls = [
        libc::SYS_clone3,
        libc::SYS_openat2,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Returns one rule for each bit, so that an argument with any of the bits matches.
fn any_bit(argument: u8, bits: &[u64]) -> Vec<SeccompRule> {
    bits.iter().filter_map(|bit| rule(argument, SeccompCmpOp::MaskedEq(*bit), *bit)).collect()
}

/// Returns a rule with one condition on the argument at `argument`. All rules in this module are well-formed: each has a
/// condition, on an argument that exists.
fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Option<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()?;
    SeccompRule::new(vec![condition]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_rule() {
        let calls = denied_calls();
        assert_eq!(calls.get(&libc::SYS_openat).map(Vec::len), Some(SET_ID_BITS.len()));
        assert_eq!(calls.get(&libc::SYS_unshare).map(Vec::len), Some(NAMESPACE_FLAGS.len()));
        assert_eq!(calls.get(&libc::SYS_socket).map(Vec::len), Some(DENIED_SOCKET_FAMILIES.len()));
    }
}
