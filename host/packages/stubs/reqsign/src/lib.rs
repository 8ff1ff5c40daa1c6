//! The part of `reqsign` that `uv-auth` names, without any signing.
//!
//! uv signs requests for an index in cloud storage where variables of its own name such an endpoint. codebox passes none of
//! these on, so nothing is ever signed; a request that were to be signed fails with [`Error`].

use std::fmt;

/// The error of every attempt to sign a request.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests to cloud storage are not signed by codebox")
    }
}

impl std::error::Error for Error {}

macro_rules! signers {
    ($($cloud:ident: ($($argument:ty),*),)*) => {$(
        /// Signing for one cloud.
        pub mod $cloud {
            use std::time::Duration;

            /// A signer that signs nothing.
            #[derive(Debug, Clone)]
            pub struct DefaultSigner;

            impl DefaultSigner {
                /// Fails.
                ///
                /// # Errors
                /// Always.
                pub async fn sign(&self, _: &mut http::request::Parts, _: Option<Duration>) -> Result<(), crate::Error> {
                    Err(crate::Error)
                }
            }

            /// The signer.
            pub fn default_signer($(_: $argument),*) -> DefaultSigner {
                DefaultSigner
            }
        }
    )*};
}

signers! {
    aws: (&str, &str),
    azure: (),
    google: (&str),
}
