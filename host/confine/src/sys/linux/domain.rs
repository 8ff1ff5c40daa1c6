//! The Landlock domain: the file system, the network and other processes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use codebox_core::{LayerState, SandboxLayer};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictSelfAttr as _, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope, make_bitflags,
};

use super::granted_paths::{Access, Kind, OpenPath};
use crate::ConfineError;
use crate::layers::layer;

/// The newest requested ABI. Older kernels apply the part that they support.
const NEWEST: ABI = ABI::V9;
/// The first ABI that covers everything that the layer promises: files, truncation, device ioctls, TCP, signals and
/// abstract sockets. Seccomp also denies what newer ABIs add.
const COMPLETE: ABI = ABI::V6;

const READ_FILE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile});
const READ_DIRECTORY: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const WRITE_FILE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
const REMOVE_DIRECTORY: BitFlags<AccessFs> = make_bitflags!(AccessFs::{RemoveDir});
const WRITE_DIRECTORY: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSym | Refer
});

/// Denies everything that the running kernel can deny, except for `granted_paths`.
pub(super) fn enter(granted_paths: &[OpenPath]) -> Result<SandboxLayer, ConfineError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .all_threads(true)?;
    for granted in granted_paths {
        ruleset = ruleset.add_rule(PathBeneath::new(granted, rights(granted.access, granted.kind)))?;
    }
    let status = ruleset.restrict_self()?;
    let others = if status.all_threads { Some(0) } else { other_threads() };
    Ok(describe(status.landlock, others))
}

fn rights(access: Access, kind: Kind) -> BitFlags<AccessFs> {
    match (access, kind) {
        (Access::Read, Kind::File) => READ_FILE,
        (Access::Read, Kind::Directory) => READ_DIRECTORY,
        (Access::ReadWrite, Kind::File) => WRITE_FILE,
        (Access::ReadWrite, Kind::Directory) => WRITE_DIRECTORY,
        // A file contains nothing to remove, so the rule grants reading instead.
        (Access::RemoveEmptyDirs, Kind::File) => READ_FILE,
        (Access::RemoveEmptyDirs, Kind::Directory) => REMOVE_DIRECTORY,
    }
}

/// Returns the number of other threads of the process, or `None` if the system does not report it.
///
/// The function opens no file: a link count is metadata, which Landlock does not restrict.
fn other_threads() -> Option<u64> {
    // A directory in /proc has one link for its name, one for itself, and one per thread below it.
    fs::metadata("/proc/self/task").ok()?.nlink().checked_sub(3)
}

fn describe(status: LandlockStatus, others: Option<u64>) -> SandboxLayer {
    let (state, detail) = match status {
        LandlockStatus::NotImplemented => (LayerState::Unavailable, "not in this kernel".to_owned()),
        LandlockStatus::NotEnabled => (LayerState::Unavailable, "not enabled at boot".to_owned()),
        LandlockStatus::Available { effective_abi, kernel_abi: _ } => {
            let outside = match others {
                Some(0) => String::new(),
                Some(others) => format!("; outside: {others} threads started before"),
                None => "; outside: threads started before, if any".to_owned(),
            };
            let complete = effective_abi >= COMPLETE && outside.is_empty();
            let state = if complete { LayerState::Held } else { LayerState::Partial };
            (state, format!("abi {effective_abi}: {}{outside}", coverage(effective_abi)))
        }
    };
    layer("landlock", state, detail)
}

/// Returns the coverage of an ABI, in words for the report.
fn coverage(abi: ABI) -> &'static str {
    match abi {
        ABI::V1 | ABI::V2 => "file system without truncation",
        ABI::V3 => "file system",
        ABI::V4 | ABI::V5 => "file system, tcp",
        _ => "file system, tcp, signals, abstract unix sockets",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abi(effective_abi: ABI) -> LandlockStatus {
        LandlockStatus::Available { effective_abi, kernel_abi: None }
    }

    #[test]
    fn old_abi_is_partial_and_names_its_coverage() {
        let described = describe(abi(ABI::V4), Some(0));
        assert_eq!(described.state, LayerState::Partial);
        assert_eq!(described.detail, "abi 4: file system, tcp");
    }

    #[test]
    fn unconfined_threads_make_layer_partial() {
        assert_eq!(describe(abi(ABI::V7), Some(0)).state, LayerState::Held);
        let described = describe(abi(ABI::V7), Some(2));
        assert_eq!(described.state, LayerState::Partial);
        assert!(described.detail.ends_with("; outside: 2 threads started before"), "{}", described.detail);
        assert_eq!(describe(abi(ABI::V7), None).state, LayerState::Partial);
    }

    #[test]
    fn kernel_without_landlock_is_unavailable() {
        let described = describe(LandlockStatus::NotEnabled, Some(0));
        assert_eq!(described.state, LayerState::Unavailable);
    }
}
