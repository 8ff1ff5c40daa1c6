//! Consistency of the lists of attacks and programs.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use codebox_testkit::{Guest, Header};
use libtest_mimic::Trial;

/// Programs that the trials use.
pub type AttackedPrograms = BTreeSet<(Guest, String)>;

pub fn trials(attacked: AttackedPrograms) -> Vec<Trial> {
    vec![
        Trial::test("list::every_program_has_a_trial", move || Ok(complete(&attacked)?)),
        Trial::test("list::javascript_covers_every_attack", || Ok(parity()?)),
    ]
}

fn complete(attacked: &AttackedPrograms) -> Result<()> {
    for guest in Guest::ALL {
        let mut programs = guest.hostile_programs()?;
        programs.retain(|name| !attacked.contains(&(guest, name.clone())));
        ensure!(programs.is_empty(), "no trial attacks with {} {programs:?}", guest.name());
    }
    Ok(())
}

/// For each Python program, JavaScript has a program of the same row that allows no other outcome.
fn parity() -> Result<()> {
    for name in Guest::Python.hostile_programs()? {
        let (python, javascript) = (Header::of(Guest::Python, &name)?, Header::of(Guest::JavaScript, &name)?);
        ensure!(
            python.row == javascript.row,
            "{name} is {} in one language, {} in the other",
            python.row,
            javascript.row
        );
        let mut other = javascript.expect;
        other.retain(|outcome| !python.expect.contains(outcome));
        ensure!(other.is_empty(), "in JavaScript alone {name} may end as {other:?}");
    }
    Ok(())
}
