//! The `hold` command: a process that keeps a user namespace alive.

use std::io::{self, Read as _, Write as _};

use rustix::thread::UnshareFlags;

/// Enters a new user namespace, writes one byte to report it, and waits until standard input ends.
#[expect(deprecated, reason = "a new user namespace for a program with one thread touches no memory and no descriptor")]
pub(crate) fn hold() -> io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWUSER)?;
    io::stdout().write_all(b"\n")?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
