//! The part of `x509-parser` that `uv-client` names. It only words warnings about certificates that are passed over;
//! certificates are verified by `rustls-webpki`.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

/// The names that are used most.
pub mod prelude {
    pub use crate::{FromDer, X509Certificate};
}

/// The error of every attempt to parse a certificate.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("certificates are not parsed for descriptions")
    }
}

/// Parsing of DER.
pub trait FromDer<'a>: Sized {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    fn from_der(bytes: &'a [u8]) -> Result<(&'a [u8], Self), Error>;
}

/// A certificate, of which there is none.
#[derive(Debug)]
pub struct X509Certificate<'a> {
    never: Infallible,
    bytes: PhantomData<&'a [u8]>,
}

impl X509Certificate<'_> {
    /// The version of a certificate.
    pub fn version(&self) -> u32 {
        match self.never {}
    }

    /// The subject of a certificate.
    pub fn subject(&self) -> Subject {
        match self.never {}
    }

    /// The extensions of a certificate.
    pub fn iter_extensions(&self) -> std::iter::Empty<Extension> {
        match self.never {}
    }
}

/// The subject of a certificate.
#[derive(Debug)]
pub struct Subject;

impl Subject {
    /// Its attributes.
    pub fn iter_attributes(&self) -> std::iter::Empty<()> {
        std::iter::empty()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// An extension of a certificate.
#[derive(Debug)]
pub struct Extension {
    /// True if a reader that does not know the extension must refuse the certificate.
    pub critical: bool,
    /// Its object identifier.
    pub oid: String,
}

impl<'a> FromDer<'a> for X509Certificate<'a> {
    fn from_der(_: &'a [u8]) -> Result<(&'a [u8], Self), Error> {
        Err(Error)
    }
}
