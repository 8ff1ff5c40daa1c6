//! The uv HTTP client, configured from the user's settings.

use std::sync::Arc;

use uv_cache::Cache;
use uv_client::{
    AuthIntegration, BaseClient, BaseClientBuilder, ClientBuildError, ExtraMiddleware, RedirectPolicy, RegistryClient,
    RegistryClientBuilder,
};

use super::response_limit::ResponseLimit;
use crate::address_policy::AddressGuard;
use crate::error::FetchError;
use crate::settings::{IndexSettings, RootCertificates};

/// HTTP client with the cache of its index pages.
pub(crate) struct Registry {
    pub(crate) client: RegistryClient,
    pub(crate) cache: Cache,
}

/// Builds a client for these settings. Its cache is in a temporary directory, which is removed with the client.
pub(super) fn registry(settings: &IndexSettings) -> Result<Registry, FetchError> {
    registry_with_cache(settings, Cache::temp().map_err(|error| FetchError::Client(error.into()))?)
}

/// Builds a client for these settings that uses this cache.
pub(crate) fn registry_with_cache(settings: &IndexSettings, cache: Cache) -> Result<Registry, FetchError> {
    let build = |client_builder: BaseClientBuilder<'static>| {
        RegistryClientBuilder::new(client_builder, cache.clone()).index_locations(settings.locations.clone()).build()
    };
    let own = settings.search_order().filter_map(|index| index.url().as_str().parse().ok()).collect();
    let guards = ExtraMiddleware(vec![Arc::new(AddressGuard { own }), Arc::new(ResponseLimit)]);
    let client_builder = client_builder(settings).extra_middleware(guards);
    let client = match &settings.root_certificates {
        RootCertificates::Custom(certificates) => build(client_builder.custom_certificates(certificates.clone())),
        RootCertificates::System => build(client_builder.with_system_certs(true)),
        RootCertificates::Bundled => build(client_builder),
        // A system without any certificates, such as a slim container image, cannot supply the client's roots.
        RootCertificates::SystemOrBundled => {
            build(client_builder.clone().with_system_certs(true)).or_else(|_| build(client_builder))
        }
    };
    let client = client.map_err(|error| FetchError::Client(error.into()))?;
    Ok(Registry { client, cache })
}

/// Builds a client for these settings that follows no redirect and adds no credentials: the caller handles both.
pub(crate) fn build_plain_client(settings: &IndexSettings) -> Result<BaseClient, ClientBuildError> {
    let client_builder = client_builder(settings)
        .redirect(RedirectPolicy::NoRedirect)
        .auth_integration(AuthIntegration::NoAuthMiddleware);
    match &settings.root_certificates {
        RootCertificates::Custom(certificates) => client_builder.custom_certificates(certificates.clone()).build(),
        RootCertificates::System => client_builder.with_system_certs(true).build(),
        RootCertificates::Bundled => client_builder.build(),
        RootCertificates::SystemOrBundled => {
            client_builder.clone().with_system_certs(true).build().or_else(|_| client_builder.build())
        }
    }
}

fn client_builder(settings: &IndexSettings) -> BaseClientBuilder<'static> {
    let globals = &settings.options.globals;
    let keyring = settings.options.top_level.keyring_provider;
    BaseClientBuilder::default()
        .connectivity(settings.connectivity)
        .retries(settings.retries)
        .read_timeout(settings.read_timeout)
        .connect_timeout(settings.connect_timeout)
        .allow_insecure_host(globals.allow_insecure_host.clone().unwrap_or_default())
        .http_proxy(globals.http_proxy.clone())
        .https_proxy(globals.https_proxy.clone())
        .no_proxy(globals.no_proxy.clone())
        .keyring(keyring.unwrap_or_default())
}
