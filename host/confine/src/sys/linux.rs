//! Linux: Landlock, and then seccomp, which denies the system calls that change either.

mod arguments;
mod calls;
mod domain;
mod filter;
mod places;
mod program;

use codebox_core::SandboxLayer;

use crate::{ConfineError, Rules};

/// Applies both layers. Seccomp is last because it denies the system calls that apply them.
pub(crate) fn confine(rules: &Rules) -> Result<Vec<SandboxLayer>, ConfineError> {
    let places = places::open(rules)?;
    let filter = filter::build(rules)?;
    let landlock = domain::enter(&places)?;
    let seccomp = filter::apply(filter)?;
    Ok(vec![landlock, seccomp])
}
