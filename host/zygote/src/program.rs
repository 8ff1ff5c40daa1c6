//! Identity of the installed program, by which a client recognises a host process of the same build.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identity of the file of the complete program. It changes whenever the file is replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramId([u64; 5]);

impl ProgramId {
    /// Bytes of the encoded identity.
    pub(crate) const SIZE: usize = 40;

    /// Returns the identity of the file at a path.
    ///
    /// # Errors
    /// The error of inspecting the file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Returns the identity of the file of this process.
    ///
    /// # Errors
    /// The error of inspecting the file, for example because it was replaced.
    pub fn of_this_process() -> io::Result<Self> {
        Self::of_file(Path::new("/proc/self/exe"))
    }

    fn of(metadata: &Metadata) -> Self {
        let times = [metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
        Self([metadata.dev(), metadata.ino(), metadata.size(), times[0], times[1]])
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (place, number) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let mut numbers = [0; 5];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = place.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        Self(numbers)
    }
}
