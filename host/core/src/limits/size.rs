use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Creates a size of `n` bytes.
    #[must_use]
    pub const fn bytes(n: u64) -> Self {
        Self(n)
    }

    /// Creates a size of `n` times 1024 bytes; at most `u64::MAX` bytes.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// Creates a size of `n` times 1024² bytes; at most `u64::MAX` bytes.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// Creates a size of `n` times 1024³ bytes; at most `u64::MAX` bytes.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 30))
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes as an in-memory length; `usize::MAX` if it does not fit.
    #[must_use]
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    /// Formats the size in the largest unit that divides it evenly: `256 MiB`, `1000 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let unit_and_name = units.iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        match unit_and_name {
            Some((unit, name)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_largest_even_unit() {
        assert_eq!(ByteSize::mib(256).to_string(), "256 MiB");
        assert_eq!(ByteSize::mib(2048).to_string(), "2 GiB");
        assert_eq!(ByteSize::bytes(1000).to_string(), "1000 bytes");
        assert_eq!(ByteSize::bytes(0).to_string(), "0 bytes");
        assert_eq!(ByteSize::gib(u64::MAX).get(), u64::MAX);
    }
}
