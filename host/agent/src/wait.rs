//! The `wait` command: a process that waits to be replaced by another program, at a lower cost than starting that
//! program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Waits for a byte on a descriptor, then replaces this process by a program. Exits if the writers close the descriptor
/// first.
///
/// The words are the number of the descriptor, the path of the program, its `argv[0]` and its further arguments.
pub(crate) fn wait(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next =
        || arguments.next().ok_or_else(|| io::Error::other("wait expects a descriptor, a program and its name"));
    let (descriptor, program, name) = (next()?, next()?, next()?);
    let mut trigger = File::open(std::path::Path::new("/proc/self/fd").join(descriptor))?;
    if trigger.read(&mut [0])? == 0 {
        return Ok(());
    }
    Err(Command::new(program).arg0(name).args(arguments).exec())
}
