//! `codebox gc`.

use std::fmt::Write as _;

use codebox_core::{Leftover, Leftovers, RunnerError, Sweep, exit};

use crate::answer;
use crate::render::Escaped;
use codebox_runner::Runner;

/// Prints a line for each leftover. Returns the failure status if one could not be removed, or an engine did not
/// respond.
pub(super) fn gc(how: Sweep, runner: &Runner) -> Result<u8, RunnerError> {
    let found = runner.sweep(how)?;
    let printed = answer::print(&lines(&found, how))?;
    let all_gone = found.unreachable.is_empty() && found.found.iter().all(|leftover| leftover.kept.is_none());
    Ok(if all_gone { printed } else { exit::FAILURE })
}

fn lines(found: &Leftovers, how: Sweep) -> String {
    let mut text = String::new();
    for Leftover { kind, name, place, kept } in &found.found {
        let name = Escaped(name);
        // Writing to a string cannot fail.
        let _ = match (kept, how) {
            (Some(why), _) => writeln!(text, "cannot remove {kind} {name} ({place}): {}", Escaped(why)),
            (None, Sweep::Remove) => writeln!(text, "removed {kind} {name} ({place})"),
            (None, Sweep::DryRun) => writeln!(text, "would remove {kind} {name} ({place})"),
        };
    }
    for (engine, why) in &found.unreachable {
        let _ = writeln!(text, "cannot list containers of {engine}: {}", Escaped(why));
    }
    if text.is_empty() {
        text.push_str("nothing to remove\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_each_leftover() {
        let leftover = |kept: Option<&str>| Leftover {
            kind: "container".to_owned(),
            name: "codebox-\n1".to_owned(),
            place: "docker".to_owned(),
            kept: kept.map(str::to_owned),
        };
        let of = |left: Vec<Leftover>| Leftovers { found: left, unreachable: Vec::new() };
        assert_eq!(lines(&of(vec![]), Sweep::Remove), "nothing to remove\n");
        assert_eq!(lines(&of(vec![leftover(None)]), Sweep::Remove), "removed container codebox-\\n1 (docker)\n");
        assert_eq!(lines(&of(vec![leftover(None)]), Sweep::DryRun), "would remove container codebox-\\n1 (docker)\n");
        let kept = lines(&of(vec![leftover(Some("busy"))]), Sweep::Remove);
        assert_eq!(kept, "cannot remove container codebox-\\n1 (docker): busy\n");
        let unasked = vec![("docker".to_owned(), "cannot connect to docker".to_owned())];
        let unasked = lines(&Leftovers { found: Vec::new(), unreachable: unasked }, Sweep::Remove);
        assert_eq!(unasked, "cannot list containers of docker: cannot connect to docker\n");
    }
}
