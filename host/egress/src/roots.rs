use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::RootCertStore;

/// The trusted root certificates.
#[derive(Debug, Clone)]
pub struct TlsRoots(Arc<RootCertStore>);

/// Error of loading root certificates.
#[derive(Debug, Error)]
pub enum RootsError {
    /// The given file or directory has no certificates.
    #[error("cannot read certificates from {}: {detail}", path.display())]
    Given {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        detail: String,
    },
    /// The system has no certificates.
    #[error("no trusted root certificates on this system: {0}")]
    System(String),
}

impl TlsRoots {
    /// Loads the certificates of a file or a directory (`SSL_CERT_FILE`, `SSL_CERT_DIR`), which replace all others as
    /// in OpenSSL. Loads the system's certificates if neither is given.
    ///
    /// # Errors
    /// An error if no certificates are found.
    pub fn load(file: Option<&Path>, directory: Option<&Path>) -> Result<Self, RootsError> {
        let found = match (file, directory) {
            (None, None) => rustls_native_certs::load_native_certs(),
            _ => rustls_native_certs::load_certs_from_paths(file, directory),
        };
        let mut store = RootCertStore::empty();
        // System stores contain a few certificates that the library cannot parse.
        let (added, _left) = store.add_parsable_certificates(found.certs);
        if added > 0 {
            return Ok(Self(Arc::new(store)));
        }
        let detail = found.errors.first().map_or_else(|| "no certificates found".to_owned(), ToString::to_string);
        Err(match file.or(directory) {
            Some(path) => RootsError::Given { path: path.to_owned(), detail },
            None => RootsError::System(detail),
        })
    }

    pub(crate) fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0)
    }
}
