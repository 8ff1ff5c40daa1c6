//! Download of a runtime's package from the user's package index.

use std::path::Path;

use codebox_core::Progress;
use codebox_service::EnvLookup;
use codebox_service::catalog::CatalogError;
use codebox_wasm::Package;

/// Downloads a package to a file, or reports that this build cannot.
#[cfg(not(feature = "fetch"))]
pub(crate) fn download(
    _package: &Package,
    what: &str,
    _file: &Path,
    _env: &EnvLookup,
    _progress: &dyn Progress,
) -> Result<(), CatalogError> {
    let source = "this build cannot download packages; install the runtime from a file".into();
    Err(CatalogError::Fetch { what: what.to_owned(), source })
}

/// Downloads a package to a file.
#[cfg(feature = "fetch")]
pub(crate) fn download(
    package: &Package,
    what: &str,
    file: &Path,
    env: &EnvLookup,
    progress: &dyn Progress,
) -> Result<(), CatalogError> {
    use codebox_packages::{ConfigFiles, FetchError, IndexSettings, Pin};

    let sha256 = package.sha256.parse().map_err(|e| crate::errors::bad_package(what, e))?;
    let (name, version) = (package.name.clone(), package.version.clone());
    let pin = Pin { name, version, sha256, size: Some(package.size) };
    let settings = IndexSettings::from_user(&**env, &ConfigFiles::User)
        .map_err(|e| CatalogError::Fetch { what: what.to_owned(), source: Box::new(e) })?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|source| CatalogError::Io { action: "create an async runtime".into(), source })?;
    let fetched = executor.block_on(codebox_packages::fetch_wheel(&pin, &settings, file, progress));
    fetched.map_err(|e| match e {
        FetchError::WrongHash { expected, found, .. } => CatalogError::WrongDigest {
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        },
        other if is_full_disk(&other) => {
            CatalogError::Full { path: file.to_owned(), source: std::io::ErrorKind::StorageFull.into() }
        }
        other => CatalogError::Fetch { what: what.to_owned(), source: Box::new(other) },
    })
}

/// Returns true if a full disk or an exceeded quota is among the causes of an error.
#[cfg(feature = "fetch")]
fn is_full_disk(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.downcast_ref::<std::io::Error>().is_some_and(|error| full.contains(&error.kind())))
}
