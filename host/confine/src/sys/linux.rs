//! Linux: Landlock, and then seccomp, which denies the system calls that change either.

mod arguments;
mod calls;
mod domain;
mod filter;
mod places;
mod program;

use crate::{ConfineError, Rules, Wall};

/// Applies both walls. Seccomp is last because it denies the system calls that apply them.
pub(crate) fn confine(rules: &Rules) -> Result<Vec<Wall>, ConfineError> {
    let places = places::open(rules)?;
    let filter = filter::build(rules)?;
    let landlock = domain::enter(&places)?;
    let seccomp = filter::apply(filter)?;
    Ok(vec![landlock, seccomp])
}
