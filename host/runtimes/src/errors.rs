//! Conversion of errors to those of the catalog.

use std::io;

use codebox_service::catalog::CatalogError;
use codebox_wasm::WasmError;

/// Converts an error of the WebAssembly backend. `what` is the runtime or the package.
pub(crate) fn wasm_error(what: &str, error: WasmError) -> CatalogError {
    match error {
        WasmError::Io { path, source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            CatalogError::Full { path, source }
        }
        WasmError::Io { doing, path, source } => {
            CatalogError::Io { action: format!("{doing} {}", path.display()), source }
        }
        WasmError::Damaged { .. } => CatalogError::Damaged { what: what.to_owned(), detail: error.to_string() },
        WasmError::Module { .. } => bad_package(what, error),
        WasmError::Patch { .. } => CatalogError::Patch { runtime: what.to_owned(), detail: error.to_string() },
        other => CatalogError::Engine { action: format!("prepare {what}"), source: Box::new(other) },
    }
}

/// Returns the error for a package that cannot be used.
pub(crate) fn bad_package(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> CatalogError {
    CatalogError::BadPackage { what: what.to_owned(), detail: error.to_string(), source: Some(Box::new(error)) }
}
