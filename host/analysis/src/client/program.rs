//! The program of an analyzer.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_files::{EmbeddedFile, ProgramFile};

/// The analyzer program, which is absent in a build without it.
const ANALYZER: EmbeddedFile<'_> =
    EmbeddedFile::new(include_bytes!(concat!(env!("OUT_DIR"), "/codebox-analyzer.embedded")));

/// The digest of the analyzer program, so that each build uses a file of its own.
const DIGEST: &str = env!("CODEBOX_ANALYZER_DIGEST");

/// The program of an analyzer.
pub(super) enum Program {
    /// The embedded program.
    BuiltIn(ProgramFile),
    /// The program at this path.
    At(PathBuf),
}

impl Program {
    /// Returns a command that starts the program.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only systems with an analyzer start it"))]
    pub(super) fn command(&self) -> Command {
        match self {
            Self::BuiltIn(file) => file.command(),
            Self::At(path) => Command::new(path),
        }
    }

    /// Opens the program in `installed`, if it is usable, or installs the embedded program below `folder`.
    pub(super) fn find(installed: Option<&Path>, folder: &Path) -> io::Result<Self> {
        check_presence()?;
        let installed = installed.and_then(|dir| ProgramFile::installed(&dir.join(file_name()), ANALYZER));
        installed.map_or_else(|| ProgramFile::install(folder, &file_name(), ANALYZER), Ok).map(Self::BuiltIn)
    }
}

/// Writes the embedded program into the directory of an installation.
pub(super) fn pack(dir: &Path) -> io::Result<()> {
    check_presence()?;
    ProgramFile::pack(&dir.join(file_name()), ANALYZER)
}

fn check_presence() -> io::Result<()> {
    let absent = "this build of codebox has no analyzer (feature `analysis`)";
    if ANALYZER.is_absent() { Err(io::Error::new(io::ErrorKind::Unsupported, absent)) } else { Ok(()) }
}

fn file_name() -> String {
    format!("codebox-analyzer-{DIGEST}")
}
