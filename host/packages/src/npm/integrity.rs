//! Integrity digests of packages.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// Digest of a package's archive, in the form of `dist.integrity`: `sha512-…` in base64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Integrity {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

/// Hash algorithm, ordered from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Algorithm {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Sha512, Self::Sha384, Self::Sha256, Self::Sha1];

    const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => sha1::Digest::finalize(<sha1::Sha1 as sha1::Digest>::new_with_prefix(bytes)).to_vec(),
            Self::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
            Self::Sha384 => sha2::Sha384::digest(bytes).to_vec(),
            Self::Sha512 => sha2::Sha512::digest(bytes).to_vec(),
        }
    }
}

/// Error for a text without a valid digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("integrity {0:?} contains no sha512, sha384, sha256 or sha1 in base64")]
pub struct ParseIntegrityError(String);

impl Integrity {
    /// Computes the sha512 digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { algorithm: Algorithm::Sha512, digest: Algorithm::Sha512.of(bytes) }
    }

    /// Parses a sha1 in hexadecimal, the form of `dist.shasum`: the only digest of old packages.
    #[must_use]
    pub fn from_shasum(text: &str) -> Option<Self> {
        let digit = |at: usize| text.as_bytes().get(at).and_then(|c| char::from(*c).to_digit(16));
        if text.len() != 40 {
            return None;
        }
        let byte = |at: usize| u8::try_from(digit(2 * at)? * 16 + digit(2 * at + 1)?).ok();
        Some(Self { algorithm: Algorithm::Sha1, digest: (0..20).map(byte).collect::<Option<_>>()? })
    }

    /// Checks that the bytes have this digest. Returns their actual digest as the error.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), Self> {
        let digest = self.algorithm.of(bytes);
        if digest == self.digest { Ok(()) } else { Err(Self { algorithm: self.algorithm, digest }) }
    }

    /// Returns a name for the content with this digest that is valid as a directory name.
    pub(super) fn file_name(&self) -> String {
        let mut name = format!("{}-", self.algorithm.name());
        self.digest.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
        name
    }
}

impl FromStr for Integrity {
    type Err = ParseIntegrityError;

    /// Parses a list of digests and returns the strongest one.
    fn from_str(text: &str) -> Result<Self, ParseIntegrityError> {
        let read = |word: &str| {
            let (name, digest) = word.split_once('-')?;
            let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)?;
            // Options after a question mark have no meaning yet.
            let digest = STANDARD.decode(digest.split('?').next()?).ok()?;
            (digest.len() == algorithm.length()).then_some(Self { algorithm, digest })
        };
        let found = text.split_ascii_whitespace().filter_map(read);
        found.max_by_key(|found| found.algorithm).ok_or_else(|| ParseIntegrityError(text.to_owned()))
    }
}

impl TryFrom<String> for Integrity {
    type Error = ParseIntegrityError;

    fn try_from(text: String) -> Result<Self, ParseIntegrityError> {
        text.parse()
    }
}

impl From<Integrity> for String {
    fn from(integrity: Integrity) -> Self {
        integrity.to_string()
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.algorithm.name(), STANDARD.encode(&self.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_strongest_digest() {
        let weak = "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=";
        let strong = Integrity::of(b"");
        assert_eq!(format!("{weak} {strong}").parse(), Ok(strong.clone()));
        assert_eq!(
            weak.parse(),
            Ok(Integrity::from_shasum("da39a3ee5e6b4b0d3255bfef95601890afd80709").expect("a sha1"))
        );
        assert_eq!(weak.parse::<Integrity>().expect("a sha1").check(b""), Ok(()));
        assert!(strong.check(b"x").is_err());
    }

    #[test]
    fn rejects_invalid_digests() {
        for text in ["", "sha512-", "sha512-xx", "md5-1B2M2Y8AsgTpgAmY7PhCfg==", "sha1-2jmj", "sha1"] {
            assert!(text.parse::<Integrity>().is_err(), "{text}");
        }
        for text in ["", "da39", "zz39a3ee5e6b4b0d3255bfef95601890afd80709"] {
            assert_eq!(Integrity::from_shasum(text), None, "{text}");
        }
    }
}
