//! Trusted root certificates.

use std::path::PathBuf;

use uv_client::Certificates;
use uv_settings::GlobalOptions;

use super::{RootCertificates, Variables};
use crate::error::SettingsError;

/// Determines the trusted certificates. Certificates that the user names replace all others, as in OpenSSL.
pub(super) fn root_certificates(
    variables: &Variables<'_>,
    file: &GlobalOptions,
) -> Result<RootCertificates, SettingsError> {
    let bundle = variables.text("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = bundle
        .map(|path| match Certificates::from_file(&path) {
            Ok(certificates) => Ok(certificates),
            Err(source) => Err(SettingsError::Certificates { path, source: source.into() }),
        })
        .transpose()?;
    // uv reads a certificate directory only from the environment itself, and adds the bundle to it.
    let both = variables.text("SSL_CERT_DIR").and_then(|_| Certificates::from_env());
    if let Some(certificates) = both.or(bundle) {
        return Ok(RootCertificates::Custom(certificates));
    }
    #[expect(deprecated, reason = "uv still honours the older spelling")]
    let configured = file.system_certs.or(file.native_tls);
    let system = match variables.flag("UV_SYSTEM_CERTS")? {
        Some(system) => Some(system),
        None => variables.flag("UV_NATIVE_TLS")?.or(configured),
    };
    Ok(match system {
        Some(true) => RootCertificates::System,
        Some(false) => RootCertificates::Bundled,
        None => RootCertificates::SystemOrBundled,
    })
}
