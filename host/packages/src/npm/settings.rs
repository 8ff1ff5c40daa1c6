//! npm registry settings of the user.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deno_npmrc::{NPM_DEFAULT_REGISTRY, NpmRc, NpmRegistryUrl, RegistryConfig, ResolvedNpmRc};
use url::Url;
use uv_client::{Certificates, Connectivity};

use super::error::NpmError;
use super::name::NpmName;
use crate::error::SettingsError;
use crate::settings::{ConfigFiles, IndexSettings, RootCertificates};

/// Selection of the `.npmrc` files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NpmFiles {
    /// The file named by `NPM_CONFIG_USERCONFIG`, or else the one in this home directory, and with lower precedence the
    /// file named by `NPM_CONFIG_GLOBALCONFIG`. The file of a project is not read: downloads must not depend on the
    /// working directory.
    User {
        /// The user's home directory, if known.
        home: Option<PathBuf>,
    },
    /// These files, which must exist. Later ones take precedence.
    Explicit(Vec<PathBuf>),
}

/// The user's registries and the settings of the connection to them.
#[derive(Clone)]
pub struct NpmSettings<'e> {
    rc: ResolvedNpmRc,
    env: Env<'e>,
    /// The paths and contents of the files, in increasing order of precedence.
    file_texts: Vec<(PathBuf, String)>,
    uv_files: ConfigFiles,
    /// The time limit of the whole installation.
    pub(super) timeout: Duration,
}

/// Default time limit of an installation, sufficient for a slow registry.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

impl<'e> NpmSettings<'e> {
    /// Reads the settings that npm would read.
    ///
    /// `env` returns the values of environment variables; an empty value counts as unset. A variable takes precedence
    /// over the files:
    ///
    /// - the registry: `NPM_CONFIG_REGISTRY`, `registry`; that of a scope: `@scope:registry`; else npm's own default
    /// - credentials, only for the registry that they are configured for: `//host/path/:_authToken`, `:_auth`,
    ///   `:username` with `:_password`
    /// - offline mode: `NPM_CONFIG_OFFLINE`, `offline`
    /// - the connection: `proxy`, `https-proxy`, `noproxy`, `cafile`, `fetch-timeout`, and their variables
    ///
    /// The defaults for proxies, certificates, retries, timeouts and offline mode are those of
    /// [`IndexSettings::from_user`]. `strict-ssl=false` is not honoured. The settings of the connection are read only
    /// when a connection is needed: certificates are long, and most runs need none.
    ///
    /// # Errors
    /// When a variable or file cannot be parsed. Settings are never applied partially.
    pub fn from_user(
        env: &'e dyn Fn(&str) -> Option<String>,
        files: &NpmFiles,
        uv_files: &ConfigFiles,
    ) -> Result<Self, NpmError> {
        let env = Env(env);
        let file_texts = env.file_texts(files)?;
        let mut rc = NpmRc::default();
        for (path, text) in &file_texts {
            let unusable = |source: crate::error::Cause| NpmError::ConfigFile { path: path.clone(), source };
            let read = NpmRc::parse(&env, text).map_err(|error| unusable(error.to_string().into()))?;
            rc.registry = read.registry.or(rc.registry);
            rc.scope_registries.extend(read.scope_registries);
            rc.registry_configs.extend(read.registry_configs);
            rc.replace_registry_host = read.replace_registry_host.or(rc.replace_registry_host);
        }
        let bad = |name| NpmError::Settings(SettingsError::Variable { name, expected: "a registry URL" });
        let registry = match env.variable("registry") {
            Some(text) => NpmRegistryUrl {
                url: parse_registry_url(&text).ok_or_else(|| bad("NPM_CONFIG_REGISTRY"))?,
                from_env: true,
            },
            None => NpmRegistryUrl {
                url: parse_registry_url(NPM_DEFAULT_REGISTRY).ok_or_else(|| bad("registry"))?,
                from_env: false,
            },
        };
        let rc = rc.as_resolved(&registry).map_err(|_| bad("registry in .npmrc"))?;
        if rc.get_all_known_registries_urls().iter().any(|url| !matches!(url.scheme(), "http" | "https")) {
            return Err(bad("registry in .npmrc"));
        }
        Ok(Self { rc, env, file_texts, uv_files: uv_files.clone(), timeout: DEFAULT_TIMEOUT })
    }

    /// Returns the settings with another time limit for the whole installation.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns the settings without registries of scopes, for a default registry that has every package.
    #[must_use]
    pub fn with_single_registry(mut self) -> Self {
        self.rc.scopes.clear();
        self
    }

    /// Returns the registry of packages without a scope, without credentials.
    #[must_use]
    pub fn registry(&self) -> String {
        redacted_url(&self.rc.default_config.registry_url)
    }

    /// Returns the settings of the connection, including offline mode.
    pub(super) fn connection(&self) -> Result<IndexSettings, NpmError> {
        self.env.connection(IndexSettings::from_user(self.env.0, &self.uv_files)?, &self.file_texts)
    }

    /// Returns the registry of a package, with a trailing slash.
    pub(super) fn registry_for(&self, name: &NpmName) -> &Url {
        self.rc.get_registry_url(name.as_str())
    }

    /// Returns all registries as a text, for the key of a resolution.
    pub(super) fn registries(&self) -> String {
        let mut scopes: Vec<String> = self
            .rc
            .scopes
            .iter()
            .map(|(scope, config)| format!("@{scope} {}", redacted_url(&config.registry_url)))
            .collect();
        scopes.sort();
        format!("{} {}", self.registry(), scopes.join(" "))
    }

    /// Returns the URL to download an archive from, given the URL that a registry lists.
    pub(super) fn archive_url(&self, name: &NpmName, url: Url) -> Url {
        self.rc.replace_tarball_url(url, name.as_str())
    }

    /// Returns the `authorization` header for a URL.
    pub(super) fn credentials(&self, url: &Url) -> Option<String> {
        self.rc.tarball_config(url).and_then(|config| authorization_header(config))
    }
}

impl fmt::Debug for NpmSettings<'_> {
    // Not derived, since the fields hold tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NpmSettings").field("registry", &self.registry()).finish_non_exhaustive()
    }
}

/// Returns a URL without its credentials.
pub(super) fn redacted_url(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// Parses the URL of a registry and adds a trailing slash.
fn parse_registry_url(text: &str) -> Option<Url> {
    let url = Url::parse(&format!("{}/", text.trim().trim_end_matches('/'))).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

fn authorization_header(config: &RegistryConfig) -> Option<String> {
    if let Some(token) = &config.auth_token {
        return Some(format!("Bearer {token}"));
    }
    if let Some(auth) = &config.auth {
        return Some(format!("Basic {auth}"));
    }
    let (name, password) = (config.username.as_ref()?, STANDARD.decode(config.password.as_ref()?).ok()?);
    Some(format!("Basic {}", STANDARD.encode([name.as_bytes(), b":", &password].concat())))
}

/// Environment variables of the caller, with npm's names for its own settings.
#[derive(Clone, Copy)]
struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

impl sys_traits::BaseEnvVar for Env<'_> {
    fn base_env_var_os(&self, key: &OsStr) -> Option<OsString> {
        (self.0)(key.to_str()?).map(OsString::from)
    }
}

impl Env<'_> {
    /// Returns the value of the variable for one of npm's settings.
    fn variable(&self, key: &str) -> Option<String> {
        let name = format!("npm_config_{}", key.replace('-', "_"));
        let found = (self.0)(&name.to_ascii_uppercase()).or_else(|| (self.0)(&name));
        found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn file_texts(&self, files: &NpmFiles) -> Result<Vec<(PathBuf, String)>, NpmError> {
        let (paths, all) = match files {
            NpmFiles::Explicit(paths) => (paths.clone(), true),
            NpmFiles::User { home } => {
                let user = self.variable("userconfig").map(PathBuf::from);
                let user = user.or_else(|| home.as_ref().map(|home| home.join(".npmrc")));
                (self.variable("globalconfig").map(PathBuf::from).into_iter().chain(user).collect(), false)
            }
        };
        let read = |path: PathBuf| match fs::read_to_string(&path) {
            Ok(text) => Some(Ok((path, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !all => None,
            Err(error) => Some(Err(NpmError::ConfigFile { path, source: error.into() })),
        };
        paths.into_iter().filter_map(read).collect()
    }

    /// Applies npm's connection settings on top of uv's.
    fn connection(&self, mut net: IndexSettings, file_texts: &[(PathBuf, String)]) -> Result<IndexSettings, NpmError> {
        let configured = |key: &str| {
            self.variable(key)
                .or_else(|| file_texts.iter().rev().find_map(|(_, text)| setting(text, key, &|name| (self.0)(name))))
        };
        let bad = |name| NpmError::Settings(SettingsError::Variable { name, expected: "a value that npm accepts" });
        if configured("offline").is_some_and(|value| value == "true") {
            net.connectivity = Connectivity::Offline;
        }
        if let Some(millis) = configured("fetch-timeout") {
            net.read_timeout = Duration::from_millis(millis.parse().map_err(|_| bad("fetch-timeout"))?);
            net.connect_timeout = net.connect_timeout.min(net.read_timeout);
        }
        if let Some(retries) = configured("fetch-retries") {
            net.retries = retries.parse().map_err(|_| bad("fetch-retries"))?;
        }
        let globals = &mut net.options.globals;
        let is_set = |value: &String| !matches!(value.as_str(), "null" | "false" | "true");
        if let Some(proxy) = configured("https-proxy").filter(is_set) {
            globals.https_proxy = Some(proxy.parse().map_err(|_| bad("https-proxy"))?);
        }
        if let Some(proxy) = configured("proxy").filter(is_set) {
            globals.http_proxy = Some(proxy.parse().map_err(|_| bad("proxy"))?);
        }
        if let Some(hosts) = configured("noproxy") {
            globals.no_proxy = Some(hosts.split(',').map(|host| host.trim().to_owned()).collect());
        }
        // Certificates that are configured for all connections take precedence.
        if let Some(path) = configured("cafile")
            .filter(is_set)
            .filter(|_| !matches!(net.root_certificates, RootCertificates::Custom(_)))
        {
            let path = PathBuf::from(path);
            net.root_certificates = RootCertificates::Custom(certificates(&path)?);
        }
        Ok(net)
    }
}

fn certificates(path: &Path) -> Result<Certificates, NpmError> {
    Certificates::from_file(path).map_err(|error| NpmError::ConfigFile { path: path.to_owned(), source: error.into() })
}

/// Returns the last value of a plain setting in an `.npmrc`.
fn setting(text: &str, key: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#']));
    let found = lines.filter_map(|line| line.split_once('=')).rfind(|(name, _)| name.trim() == key);
    let value = found?.1.trim().trim_matches('"');
    let expanded = match value.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        Some((name, rest)) => env(name)? + rest,
        None => value.to_owned(),
    };
    Some(expanded).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        rc: &str,
        variables: &'static [(&'static str, &'static str)],
    ) -> Result<NpmSettings<'static>, NpmError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".npmrc");
        fs::write(&path, rc).expect("a file");
        let env = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let (env, files) = (Box::leak(Box::new(env)), NpmFiles::Explicit(vec![path]));
        NpmSettings::from_user(env, &files, &ConfigFiles::Explicit(Vec::new()))
    }

    fn name(text: &str) -> NpmName {
        text.parse().expect("a name")
    }

    #[test]
    fn selects_registries_like_npm() {
        let read = settings("registry=http://127.0.0.1:1/all\n@own:registry=http://127.0.0.1:2/\n", &[])
            .expect("valid settings");
        assert_eq!(read.registry_for(&name("a")).as_str(), "http://127.0.0.1:1/all/");
        assert_eq!(read.registry_for(&name("@own/a")).as_str(), "http://127.0.0.1:2/");
        assert_eq!(read.registry_for(&name("@other/a")).as_str(), "http://127.0.0.1:1/all/");
        let read = settings("registry=http://127.0.0.1:1/", &[("NPM_CONFIG_REGISTRY", "http://127.0.0.1:3")])
            .expect("valid settings");
        assert_eq!(read.registry(), "http://127.0.0.1:3/");
        let own = "registry=http://127.0.0.1:1/\n@own:registry=http://127.0.0.1:2/\n";
        let read = settings(own, &[("NPM_CONFIG_REGISTRY", "http://127.0.0.1:3")])
            .expect("valid settings")
            .with_single_registry();
        assert_eq!(read.registry_for(&name("@own/a")).as_str(), "http://127.0.0.1:3/");
        assert!(settings("", &[]).expect("valid settings").registry().starts_with("https://"));
        for rc in ["registry=file:///tmp/", "registry=nonsense", "@a:registry=ftp://x/"] {
            assert!(settings(rc, &[]).is_err(), "{rc}");
        }
    }

    #[test]
    fn sends_token_only_to_its_registry() {
        let rc = "registry=https://one.example/npm/\n//one.example/npm/:_authToken=${TOKEN}\n";
        let read = settings(rc, &[("TOKEN", "secret")]).expect("valid settings");
        let shown = |url: &str| read.credentials(&url.parse().expect("an address"));
        assert_eq!(shown("https://one.example/npm/a/-/a.tgz").as_deref(), Some("Bearer secret"));
        for url in ["https://one.example/other/a", "https://two.example/npm/a", "https://one.example:444/npm/a"] {
            assert_eq!(shown(url), None, "{url}");
        }
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn applies_connection_settings_of_npm() {
        let read = |rc: &str, variables| settings(rc, variables).and_then(|read| read.connection());
        let net = read("offline = true\nfetch-timeout=1500\nfetch-retries=0\n", &[]).expect("valid settings");
        assert!(net.connectivity.is_offline());
        assert_eq!((net.read_timeout, net.retries), (Duration::from_millis(1500), 0));
        let net = read("offline=true", &[("npm_config_offline", "false")]).expect("valid settings");
        assert!(!net.connectivity.is_offline());
        assert!(read("cafile=/missing/file.pem", &[]).is_err());
        assert!(read("fetch-timeout=soon", &[]).is_err());
    }
}
