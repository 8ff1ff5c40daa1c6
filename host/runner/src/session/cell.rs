//! Texts that a session runs.

use codebox_core::{GuestPath, InputFile, LimitOverrides, Stdin};
use serde::{Deserialize, Serialize};

/// One text to run in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Text to run.
    pub text: String,
    /// Limits of this cell that differ from those of the session. Only those on time and output can.
    pub limits: LimitOverrides,
    /// Standard input of the cell. A session in a container has none, and refuses it.
    pub stdin: Stdin,
    /// Files that are written before the cell runs, below `/work` or `/tmp`. They replace files and links of these paths. If an
    /// earlier cell has made that impossible, for example with a link in place of a directory, the interpreter ends.
    pub files: Vec<InputFile>,
    /// Files below `/work` or `/tmp` that the report returns, as they are after the cell: at most
    /// [`MAX_COUNT`](codebox_core::ReturnedFile::MAX_COUNT), of [`MAX_BYTES`](codebox_core::ReturnedFile::MAX_BYTES) together.
    pub returns: Vec<GuestPath>,
    /// Number of the cell in error reports (`<cell 3>`); `None` for one more than that of the cell before. The lines of an earlier cell with
    /// the same number are not shown any more.
    #[serde(default)]
    pub number: Option<u32>,
}

impl Cell {
    /// [`Number`](Self::number) of cells that are not counted, which do not change `_`.
    pub const NOT_COUNTED: u32 = 0;
}

/// Course of a cell that can be [repeated](crate::Session::exec_repeatable), as far as random numbers determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Seed of the random numbers that the interpreter requests.
    pub seed: [u8; 32],
    /// True if the generators of the saved state go on, and false if they are seeded again.
    pub continues: bool,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            limits: LimitOverrides::default(),
            stdin: Stdin::Empty,
            files: Vec::new(),
            returns: Vec::new(),
            number: None,
        }
    }
}
