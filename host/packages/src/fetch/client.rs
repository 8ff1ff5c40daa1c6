//! The uv HTTP client, configured from the user's settings.

use std::sync::Arc;

use uv_cache::Cache;
use uv_client::{
    AuthIntegration, BaseClient, BaseClientBuilder, ClientBuildError, ExtraMiddleware, RedirectPolicy, RegistryClient,
    RegistryClientBuilder,
};

use super::bound::Bounded;
use crate::error::FetchError;
use crate::reach::NoNearer;
use crate::settings::{IndexSettings, Roots};

/// HTTP client with the cache of its index pages.
pub(crate) struct Registry {
    pub(crate) client: RegistryClient,
    pub(crate) cache: Cache,
}

/// Builds a client for these settings. Its cache is in a temporary directory, which is removed with the client.
pub(super) fn registry(settings: &IndexSettings) -> Result<Registry, FetchError> {
    registry_in(settings, Cache::temp().map_err(|error| FetchError::Client(error.into()))?)
}

/// Builds a client for these settings that uses this cache.
pub(crate) fn registry_in(settings: &IndexSettings, cache: Cache) -> Result<Registry, FetchError> {
    let build = |base: BaseClientBuilder<'static>| {
        RegistryClientBuilder::new(base, cache.clone()).index_locations(settings.locations.clone()).build()
    };
    let own = settings.in_order().filter_map(|index| index.url().as_str().parse().ok()).collect();
    let guards = ExtraMiddleware(vec![Arc::new(NoNearer { own }), Arc::new(Bounded)]);
    let base = base(settings).extra_middleware(guards);
    let client = match &settings.roots {
        Roots::Given(certificates) => build(base.custom_certificates(certificates.clone())),
        Roots::System => build(base.with_system_certs(true)),
        Roots::Bundled => build(base),
        // A system without any certificates, such as a slim container image, cannot supply the client's roots.
        Roots::SystemOrBundled => build(base.clone().with_system_certs(true)).or_else(|_| build(base)),
    };
    let client = client.map_err(|error| FetchError::Client(error.into()))?;
    Ok(Registry { client, cache })
}

/// Builds a client for these settings that follows no redirect and adds no credentials: the caller handles both.
pub(crate) fn plain(settings: &IndexSettings) -> Result<BaseClient, ClientBuildError> {
    let base = base(settings).redirect(RedirectPolicy::NoRedirect).auth_integration(AuthIntegration::NoAuthMiddleware);
    match &settings.roots {
        Roots::Given(certificates) => base.custom_certificates(certificates.clone()).build(),
        Roots::System => base.with_system_certs(true).build(),
        Roots::Bundled => base.build(),
        Roots::SystemOrBundled => base.clone().with_system_certs(true).build().or_else(|_| base.build()),
    }
}

fn base(settings: &IndexSettings) -> BaseClientBuilder<'static> {
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
