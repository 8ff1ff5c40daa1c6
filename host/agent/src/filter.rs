//! What no job needs and the engines' own lists of system calls let through.
//!
//! The agent puts it on itself before anything else starts, so that every process of the job has it besides the engine's
//! own, whichever engine that is. Nothing takes it off again.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

/// Bits of a mode that lend a file's owner's or group's powers to whoever runs it. In a granted directory the file is the
/// caller's, who may be root.
const LENDING: [u64; 2] = [0o4000, 0o2000];

/// New namespaces: mounts, control groups, names, messages, users, processes, network.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Families of sockets that lead out of a container, or into the kernel: to the host of a virtual machine, to the kernel's
/// ciphers.
const FAMILIES: [u64; 2] = [40, 38];

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Refuses all of it to this process and whatever it starts.
pub(crate) fn apply() -> io::Result<()> {
    for (error, calls) in [(EPERM, refused()), (ENOSYS, unknown())] {
        let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(error), arch);
        let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
    }
    apply_filter(&x32()).map_err(io::Error::other)
}

/// The first number of a call of the x32 interface, which some kernels offer beside the 64-bit one.
///
/// Its calls are the same ones under other numbers, so the lists here would not see them. No call of another interface
/// that gets this far has such a number.
const X32: u32 = 0x4000_0000;

/// A filter that refuses all calls of the x32 interface.
fn x32() -> BpfProgram {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const JUMP_IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let statement = |code: u32, k: u32| {
        // Operation codes are 16 bits wide; the constants are wider than they need be.
        let [low, high, ..] = code.to_le_bytes();
        sock_filter { code: u16::from_le_bytes([low, high]), jt: 0, jf: 0, k }
    };
    vec![
        // The number of the call is the first field that a filter sees.
        statement(LOAD, 0),
        sock_filter { jf: 1, ..statement(JUMP_IF_AT_LEAST, X32) },
        statement(RETURN, SeccompAction::Errno(EPERM).into()),
        statement(RETURN, SeccompAction::Allow.into()),
    ]
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are refused, some of them with certain arguments only.
fn refused() -> Calls {
    let mut calls = Calls::new();
    let whole = [
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
    calls.extend(whole.map(|call| (call, Vec::new())));
    let modes = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (libc::SYS_fchmodat2, 2),
        (libc::SYS_openat, 3),
        (libc::SYS_mknodat, 2),
    ];
    #[cfg(target_arch = "x86_64")]
    let old = [(libc::SYS_chmod, 1), (libc::SYS_open, 2), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let old = [];
    for (call, place) in modes.into_iter().chain(old) {
        calls.insert(call, any(place, &LENDING));
    }
    calls.insert(libc::SYS_unshare, any(0, &NAMESPACES));
    calls.insert(libc::SYS_clone, any(0, &NAMESPACES));
    let family = |family: &u64| rule(0, SeccompCmpOp::Eq, *family);
    calls.insert(libc::SYS_socket, FAMILIES.iter().filter_map(family).collect());
    calls
}

/// Calls that are said not to be there: their arguments lie in memory, where no filter looks, and programs know older ones.
fn unknown() -> Calls {
    let calls = [
        libc::SYS_clone3,
        libc::SYS_openat2,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// Rules of which one holds where an argument has one of these bits.
fn any(place: u8, bits: &[u64]) -> Vec<SeccompRule> {
    bits.iter().filter_map(|bit| rule(place, SeccompCmpOp::MaskedEq(*bit), *bit)).collect()
}

/// Every rule here is well-formed: it has a condition, on an argument that there is.
fn rule(place: u8, how: SeccompCmpOp, value: u64) -> Option<SeccompRule> {
    let condition = SeccompCondition::new(place, SeccompCmpArgLen::Dword, how, value).ok()?;
    SeccompRule::new(vec![condition]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_is_lost() {
        let calls = refused();
        assert_eq!(calls.get(&libc::SYS_openat).map(Vec::len), Some(LENDING.len()));
        assert_eq!(calls.get(&libc::SYS_unshare).map(Vec::len), Some(NAMESPACES.len()));
        assert_eq!(calls.get(&libc::SYS_socket).map(Vec::len), Some(FAMILIES.len()));
    }
}
