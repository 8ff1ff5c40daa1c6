//! Cases by topic.

#[cfg(target_os = "linux")]
mod compromised_process;
mod javascript;
mod limits;
pub mod lua;
pub mod packages;
mod python;
mod rerun;
mod secrets;
mod slow;

use crate::Case;

pub fn all() -> Vec<Case> {
    let cases =
        [python::cases(), javascript::cases(), limits::cases(), rerun::cases(), secrets::cases(), slow::cases()]
            .into_iter()
            .flatten();
    #[cfg(target_os = "linux")]
    let cases = cases.chain(compromised_process::cases());
    cases.collect()
}
