//! Package index settings of the user.

mod certificates;
mod files;
mod variables;

use std::fmt;
use std::time::Duration;

use uv_client::{Certificates, Connectivity, DEFAULT_CONNECT_TIMEOUT, DEFAULT_READ_TIMEOUT, DEFAULT_RETRIES};
use uv_distribution_types::{Index, IndexLocations};
use uv_settings::Options;

use crate::error::SettingsError;
pub use files::ConfigFiles;
use variables::Variables;

/// The user's package indexes and the settings of the connection to them.
#[derive(Clone)]
pub struct IndexSettings {
    pub(crate) locations: IndexLocations,
    pub(crate) connectivity: Connectivity,
    pub(crate) retries: u32,
    pub(crate) read_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) root_certificates: RootCertificates,
    /// The options of uv.toml for proxies, trusted hosts and the keyring.
    pub(crate) options: Box<Options>,
}

/// Root certificates to verify servers with.
#[derive(Clone)]
pub(crate) enum RootCertificates {
    /// Exactly these certificates.
    Custom(Certificates),
    /// The system's certificates.
    System,
    /// The certificates that uv bundles.
    Bundled,
    /// The system's certificates, or the bundled ones on a system without any.
    SystemOrBundled,
}

impl IndexSettings {
    /// Reads the settings that uv and pip would read.
    ///
    /// `env` returns the values of environment variables; an empty value counts as unset. `files` selects the uv.toml
    /// files; `UV_NO_CONFIG` and `UV_CONFIG_FILE` take precedence over it. In uv's order of precedence:
    ///
    /// - the default index: `UV_DEFAULT_INDEX`, `[[index]]` with `default = true`, `UV_INDEX_URL`, `index-url`, and if
    ///   none is set `PIP_INDEX_URL`; else the uv library's default
    /// - further indexes, searched before it: `UV_INDEX`, `[[index]]`, `UV_EXTRA_INDEX_URL`, `extra-index-url`
    /// - plain folders and pages of files: `UV_FIND_LINKS` and `find-links`, or if none is set `PIP_FIND_LINKS`
    /// - no index at all: `UV_NO_INDEX`, `no-index`, `PIP_NO_INDEX`; offline mode: `UV_OFFLINE`, `offline`
    /// - the connection: `UV_HTTP_RETRIES`, `UV_HTTP_TIMEOUT`, `UV_HTTP_CONNECT_TIMEOUT`, `UV_INSECURE_HOST`,
    ///   `SSL_CERT_FILE`, `SSL_CERT_DIR`, `UV_SYSTEM_CERTS` (or `UV_NATIVE_TLS`), and the options of uv.toml for these,
    ///   for proxies and for the keyring
    ///
    /// Unlike in uv, the system's certificates are the default: a company's proxy is trusted if the system trusts it.
    ///
    /// # Errors
    /// When a variable or file cannot be parsed. Settings are never applied partially.
    pub fn from_user(env: &dyn Fn(&str) -> Option<String>, files: &ConfigFiles) -> Result<Self, SettingsError> {
        let variables = Variables::new(env);
        let mut options = files::read(&variables, files)?;
        let offline = variables.flag("UV_OFFLINE")?.or(options.globals.offline);
        let read_timeout = variables.seconds("UV_HTTP_TIMEOUT")?.unwrap_or(DEFAULT_READ_TIMEOUT);
        let connect_timeout = variables.seconds("UV_HTTP_CONNECT_TIMEOUT")?.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        let trusted = variables.list("UV_INSECURE_HOST", "host names")?;
        options.globals.allow_insecure_host.get_or_insert_default().extend(trusted);
        Ok(Self {
            locations: locations(&variables, &options)?,
            connectivity: match offline {
                Some(true) => Connectivity::Offline,
                _ => Connectivity::Online,
            },
            retries: variables.parsed("UV_HTTP_RETRIES", "a number of retries")?.unwrap_or(DEFAULT_RETRIES),
            read_timeout,
            // As in uv, a short read timeout also limits the time to connect.
            connect_timeout: connect_timeout.min(read_timeout),
            root_certificates: certificates::root_certificates(&variables, &options.globals)?,
            options: Box::new(options),
        })
    }

    /// Returns the configured sources, as a key that distinguishes settings. Only the files that configure sources are
    /// read.
    ///
    /// # Errors
    /// As for [`from_user`](Self::from_user).
    pub fn source_key(env: &dyn Fn(&str) -> Option<String>, files: &ConfigFiles) -> Result<Vec<String>, SettingsError> {
        let variables = Variables::new(env);
        let locations = locations(&variables, &files::read(&variables, files)?)?;
        Ok(locations.flat_indexes().chain(locations.fetch_indexes()).map(redacted_url).collect())
    }

    /// Returns true if network access is disabled.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.connectivity.is_offline()
    }

    /// Returns the sources in search order, without credentials.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        self.search_order().map(redacted_url).collect()
    }

    /// Returns the sources in search order: flat indexes such as local folders first, then other indexes.
    pub(crate) fn search_order(&self) -> impl Iterator<Item = &Index> {
        self.locations.flat_indexes().chain(self.locations.fetch_indexes())
    }
}

impl fmt::Debug for IndexSettings {
    // Not derived, since the fields hold URLs as the user configured them, including passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexSettings")
            .field("sources", &self.sources())
            .field("connectivity", &self.connectivity)
            .finish_non_exhaustive()
    }
}

/// Returns an index's URL without credentials.
pub(crate) fn redacted_url(index: &Index) -> String {
    index.url().without_credentials().to_string()
}

fn locations(variables: &Variables<'_>, options: &Options) -> Result<IndexLocations, SettingsError> {
    const INDEX: &str = "an index URL";
    const INDEXES: &str = "index URLs";
    let file = &options.top_level;
    let default = variables.parsed("UV_DEFAULT_INDEX", INDEX)?.map(|mut index: Index| {
        index.default = true;
        index
    });
    let mut indexes: Vec<Index> = default.into_iter().collect();
    indexes.extend(variables.list::<Index>("UV_INDEX", INDEXES)?);
    indexes.extend(file.index.iter().flatten().cloned());
    let extra = variables.list("UV_EXTRA_INDEX_URL", INDEXES)?;
    indexes.extend(extra.into_iter().map(Index::from_extra_index_url));
    indexes.extend(file.extra_index_url.iter().flatten().cloned().map(Index::from));
    // The first of several defaults counts, so pip's comes last.
    let uv = variables.parsed("UV_INDEX_URL", INDEX)?.map(Index::from_index_url);
    indexes.extend(uv.or_else(|| file.index_url.clone().map(Index::from)));
    indexes.extend(variables.parsed("PIP_INDEX_URL", INDEX)?.map(Index::from_index_url));

    let mut links: Vec<Index> =
        variables.comma_list("UV_FIND_LINKS", "directories or URLs")?.into_iter().map(Index::from_find_links).collect();
    links.extend(file.find_links.iter().flatten().cloned().map(Index::from));
    if links.is_empty() {
        let pip = variables.list("PIP_FIND_LINKS", "directories or URLs")?;
        links.extend(pip.into_iter().map(Index::from_find_links));
    }
    let no_index = match variables.flag("UV_NO_INDEX")?.or(file.no_index) {
        Some(no_index) => no_index,
        None => variables.flag("PIP_NO_INDEX")?.unwrap_or(false),
    };
    Ok(IndexLocations::new(indexes, links, no_index))
}
