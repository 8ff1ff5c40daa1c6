//! The `terminal` command: makes standard input the terminal of a new session, and becomes a program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{ioctl_tiocsctty, setsid};

/// The words are the path of the program, its `argv[0]` and its further arguments.
pub(crate) fn exec(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || arguments.next().ok_or_else(|| io::Error::other("terminal expects a program and its name"));
    let (program, name) = (next()?, next()?);
    setsid()?;
    ioctl_tiocsctty(rustix::stdio::stdin())?;
    Err(Command::new(program).arg0(name).args(arguments).exec())
}
