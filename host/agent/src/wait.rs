//! Waiting to become another program, for less than that program would take to start.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Waits for a byte at the descriptor that the first word names, and becomes the program that the second names, called as
/// the third says, with the rest as its arguments. Ends where the writers are gone instead.
pub(crate) fn wait(mut words: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || words.next().ok_or_else(|| io::Error::other("wait takes a descriptor, a program and its name"));
    let (descriptor, program, name) = (next()?, next()?, next()?);
    let mut orders = File::open(std::path::Path::new("/proc/self/fd").join(descriptor))?;
    if orders.read(&mut [0])? == 0 {
        return Ok(());
    }
    Err(Command::new(program).arg0(name).args(words).exec())
}
