//! Cases by topic.

mod again;
#[cfg(target_os = "linux")]
mod broken;
mod javascript;
mod limits;
pub mod packages;
mod python;
mod slow;

use crate::Case;

pub fn all() -> Vec<Case> {
    let cases =
        [python::cases(), javascript::cases(), limits::cases(), again::cases(), slow::cases()].into_iter().flatten();
    #[cfg(target_os = "linux")]
    let cases = cases.chain(broken::cases());
    cases.collect()
}
