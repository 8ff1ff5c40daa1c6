//! The part of `uv-keyring` that `uv-auth` names: a keyring without entries.
//!
//! codebox takes credentials from the index's address, `netrc` and its configuration, and leaves uv's keyring off.

use std::fmt;

/// The error of an operation on the keyring.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no such entry.
    NoEntry,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no matching entry in the keyring")
    }
}

impl std::error::Error for Error {}

/// An entry that does not exist.
#[derive(Debug)]
pub struct Entry;

impl Entry {
    /// The entry of a user of a service.
    pub fn new(_: &str, _: &str) -> Result<Self, Error> {
        Ok(Self)
    }

    /// Fails: nothing is stored.
    pub async fn set_password(&self, _: &str) -> Result<(), Error> {
        Err(Error::NoEntry)
    }

    /// Fails: there is none.
    pub async fn get_password(&self) -> Result<String, Error> {
        Err(Error::NoEntry)
    }

    /// Fails: there is none.
    pub async fn delete_credential(&self) -> Result<(), Error> {
        Err(Error::NoEntry)
    }
}
