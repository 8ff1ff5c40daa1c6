//! What is tried.

mod javascript;
mod limits;
mod python;

use crate::Case;

pub fn all() -> Vec<Case> {
    [python::cases(), javascript::cases(), limits::cases()].into_iter().flatten().collect()
}
