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
    pub(super) fn command(&self) -> Command {
        match self {
            Self::BuiltIn(file) => file.command(),
            Self::At(path) => Command::new(path),
        }
    }

    /// Installs the embedded program below `folder`.
    pub(super) fn below(folder: &Path) -> io::Result<Self> {
        if ANALYZER.is_absent() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this build of codebox has no analyzer (feature `analysis`)",
            ));
        }
        ProgramFile::install(folder, &format!("codebox-analyzer-{DIGEST}"), ANALYZER).map(Self::BuiltIn)
    }
}
