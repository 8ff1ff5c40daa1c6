//! The second sandbox layer: the process irrevocably gives up everything that a job does not need.
//!
//! WebAssembly is the first layer. The second layer assumes that hostile code has escaped from the first one and runs
//! with the rights of this process. Such code must still have access only to granted files, and no access to the
//! network, to signals for other processes or to program execution.
//!
//! On Linux the layer consists of two mechanisms, each reported as a [`SandboxLayer`]:
//!
//! - *landlock* denies the file system except for the [`Rules`], TCP, and, if the kernel supports it, signals and
//!   abstract Unix sockets to processes outside.
//! - *seccomp* allows only the system calls of a WebAssembly host with threads and files. Calls that are not on the
//!   list fail with `EPERM`, and calls that only an attack would make kill the process.
//!
//! On other systems no restriction is applied yet, and the layers report that.
//!
//! # Limitations
//!
//! - Descriptors and mappings that are already open stay usable, so open them late and close them early. Files outside
//!   of the rules, such as `/proc/self/pagemap`, have to be opened before confinement.
//! - Landlock does not protect metadata: names, sizes and times of files outside of the rules can be read by path, and
//!   times can be set where the user has permission. Modes, owners and extended attributes cannot be changed by path,
//!   because seccomp denies the system calls.
//! - Confinement restricts which resources can be reached, but not their amount: memory, processor time and disk need
//!   limits of their own.
#![forbid(unsafe_code)]

mod error;
mod layers;
mod rules;
mod sys;

use codebox_core::SandboxLayer;
pub use error::ConfineError;
pub use layers::all_off;
pub use rules::{ExecMappings, GrantedPath, Openat2, Rules, SocketAccess};

/// Confines the calling thread and all its future threads to `rules`, until the process ends.
///
/// Call this function once, before any other thread is started. Seccomp applies to all threads of the process. Landlock
/// does so from its ABI 8 on; with an older ABI, threads that already run are not confined, the layer is
/// [`LayerState::Partial`](codebox_core::LayerState::Partial), and its detail says why.
///
/// A kernel that lacks a mechanism is not an error: the returned layers report what is enforced, and the caller must
/// refuse a job that requires more. A second call fails, because the first one denies the required system calls.
///
/// # Errors
///
/// A place that cannot be opened or is a symbolic link fails before any restriction is applied. A later error can leave
/// the process partially confined, and the process should then not run guest code.
pub fn confine(rules: &Rules) -> Result<Vec<SandboxLayer>, ConfineError> {
    sys::confine(rules)
}
