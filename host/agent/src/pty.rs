//! Terminals of programs.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use codebox_core::WindowSize;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Opens a terminal. Returns its master, and the file that is the streams of a program.
pub(crate) fn open(size: WindowSize) -> io::Result<(OwnedFd, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    resize(&master, size);
    let name = ptsname(&master, Vec::new())?;
    let name = Path::new(OsStr::new(name.to_str().map_err(io::Error::other)?)).to_owned();
    let mut options = OpenOptions::new();
    let terminal = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name)?;
    Ok((master, terminal))
}

/// Leaves the conversion of line feeds to the terminal of the caller, and the echo of keys as well unless this terminal edits lines.
pub(crate) fn prepare(terminal: &File, edits: bool) -> io::Result<()> {
    let mut settings = tcgetattr(terminal)?;
    if !edits {
        settings.local_modes -= LocalModes::ECHO;
    }
    settings.output_modes -= OutputModes::OPOST;
    Ok(tcsetattr(terminal, OptionalActions::Now, &settings)?)
}

/// Sets the size of a terminal.
pub(crate) fn resize(terminal: &impl AsFd, WindowSize { rows, columns }: WindowSize) {
    let _ = tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
}
