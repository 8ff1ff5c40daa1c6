//! `codebox gc`.

use std::fmt::Write as _;

use codebox_core::exit;

use crate::answer;
use crate::failure::Failure;
use crate::host::{Host, Leftover, Sweep};
use crate::render::Escaped;

/// Prints a line for each leftover. The status is a failure's where one could not be removed.
pub(super) fn gc(how: Sweep, host: &dyn Host) -> Result<u8, Failure> {
    let found = host.sweep(how)?;
    let printed = answer::print(&lines(&found, how))?;
    let all_gone = found.iter().all(|leftover| leftover.kept.is_none());
    Ok(if all_gone { printed } else { exit::FAILURE })
}

fn lines(found: &[Leftover], how: Sweep) -> String {
    let mut text = String::new();
    for Leftover { kind, name, place, kept } in found {
        let name = Escaped(name);
        // Writing to a string cannot fail.
        let _ = match (kept, how) {
            (Some(why), _) => writeln!(text, "cannot remove {kind} {name} ({place}): {}", Escaped(why)),
            (None, Sweep::Remove) => writeln!(text, "removed {kind} {name} ({place})"),
            (None, Sweep::NameOnly) => writeln!(text, "would remove {kind} {name} ({place})"),
        };
    }
    if found.is_empty() {
        text.push_str("nothing was left behind\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leftover_has_a_line() {
        let leftover = |kept: Option<&str>| Leftover {
            kind: "container".to_owned(),
            name: "codebox-\n1".to_owned(),
            place: "docker".to_owned(),
            kept: kept.map(str::to_owned),
        };
        assert_eq!(lines(&[], Sweep::Remove), "nothing was left behind\n");
        assert_eq!(lines(&[leftover(None)], Sweep::Remove), "removed container codebox-\\n1 (docker)\n");
        assert_eq!(lines(&[leftover(None)], Sweep::NameOnly), "would remove container codebox-\\n1 (docker)\n");
        let kept = lines(&[leftover(Some("busy"))], Sweep::Remove);
        assert_eq!(kept, "cannot remove container codebox-\\n1 (docker): busy\n");
    }
}
