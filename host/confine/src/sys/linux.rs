//! Linux: Landlock, and then seccomp, which denies the system calls that change either.

mod arguments;
mod calls;
mod domain;
mod filter;
mod granted_paths;
mod program;

use codebox_core::SandboxLayer;

use crate::{ConfineError, Rules};

/// Applies both layers. Seccomp is last because it denies the system calls that apply them.
pub(crate) fn confine(rules: &Rules) -> Result<Vec<SandboxLayer>, ConfineError> {
    let granted_paths = granted_paths::open(rules)?;
    let filter = filter::build(rules)?;
    let landlock = domain::enter(&granted_paths)?;
    let seccomp = filter::apply(filter)?;
    Ok(vec![landlock, seccomp])
}
