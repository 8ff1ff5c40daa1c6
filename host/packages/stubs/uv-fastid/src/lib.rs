//! `uv-fastid`, complete, with random bytes of the system instead of those of a generator.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// Characters of an identifier, one for each value of six bits.
const ALPHABET: &[u8; 64] = b"_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// An identifier of 16 characters, 96 random bits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(String);

impl Id {
    /// Creates an unpredictable identifier.
    ///
    /// # Panics
    /// Panics if the system has no random bytes, as the original does.
    pub fn secure() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random bytes");
        Self(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 63)])).collect())
    }
}

impl Deref for Id {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Id").field(&self.0).finish()
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 16 && text.bytes().all(|byte| ALPHABET.contains(&byte)) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("invalid ID: {text:?} (must be 16 ID characters in the alphabet)"))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
