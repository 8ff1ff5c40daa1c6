//! Errors of failed resolutions.

use uv_client::ErrorKind;

use super::similar_names::similar_names;
use crate::address_policy::{ForbiddenAddress, find_middleware_error};
use crate::error::Cause;
use crate::fetch::MetadataTooComplex;
use crate::package_store::StoreError;
use crate::requirement::Requirement;
use crate::settings::IndexSettings;
use crate::source::Sdist;
use crate::target::{Target, UnsupportedPlatformError};

/// Error resolving requirements.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// There are no known wheels for a platform.
    #[error(transparent)]
    Platform(#[from] UnsupportedPlatformError),
    /// No index has some of the names.
    #[error("no package index has {}{}: {searched}", names.join(", "), suggestion(similar_names))]
    NotFound {
        /// The names.
        names: Vec<String>,
        /// Similar names.
        similar_names: Vec<String>,
        /// The searched indexes.
        searched: String,
    },
    /// The requirements contradict each other, or the available packages do not satisfy them.
    #[error("{}", no_solution(target, reason, unbuilt))]
    NoSolution {
        /// The name of the target.
        target: String,
        /// The reason, in one line.
        reason: String,
        /// The packages involved.
        involved: Vec<String>,
        /// The packages among them that are known to have only source distributions.
        unbuilt: Vec<String>,
    },
    /// A source distribution must be built to determine its requirements.
    #[error("{} must be built to determine its requirements", .0.0.file)]
    BuildRequired(Box<Sdist>),
    /// A file of an index, or a wheel built from it, cannot be fetched or used.
    #[error(transparent)]
    File(Box<StoreError>),
    /// The user has disabled network access, and the packages are not cached.
    #[error("{0} is not cached and network access is disabled (UV_OFFLINE, or `offline` in uv.toml); enable it once")]
    Offline(String),
    /// An index sent an unusable response.
    #[error("unusable response from package index: {reason}")]
    Index {
        /// The reason, in one line.
        reason: String,
        /// The complete cause.
        #[source]
        source: Cause,
    },
    /// A package requires another one from a URL.
    #[error("{by} requires {name} from {url}: only packages of an index are supported")]
    UrlDependency {
        /// The name and version of the dependent.
        by: String,
        /// The name of the required package.
        name: String,
        /// The URL.
        url: String,
    },
    /// A file has no hash, so its content cannot be verified.
    #[error("the package index has no sha256 for {file}: cannot verify it")]
    MissingHash {
        /// The file.
        file: String,
    },
    /// An index refers to an address that is not allowed.
    #[error(transparent)]
    ForbiddenAddress(Cause),
    /// The requirements of a package cannot be parsed at a bounded cost.
    #[error(transparent)]
    MetadataTooComplex(Cause),
    /// An index did not answer within the time limit.
    #[error("the package index timed out after {seconds} s; set UV_HTTP_TIMEOUT to wait longer")]
    Deadline {
        /// The time limit in seconds.
        seconds: u64,
    },
}

fn no_solution(target: &str, reason: &str, unbuilt: &[String]) -> String {
    match unbuilt {
        [] => format!("no wheels for {target} satisfy the requirements: {reason}"),
        [one] => format!("the package {one} has no wheel, only a source distribution"),
        some => format!("the packages {} have no wheels, only source distributions", some.join(", ")),
    }
}

fn suggestion(similar_names: &[String]) -> String {
    if similar_names.is_empty() { String::new() } else { format!(" (did you mean {}?)", similar_names.join(" or ")) }
}

/// Converts the resolver's error.
pub(super) fn from_resolver(
    error: uv_resolver::ResolveError,
    mut unknown: Vec<String>,
    requirements: &[Requirement],
    target: &Target,
    settings: &IndexSettings,
) -> ResolveError {
    unknown.sort();
    unknown.dedup();
    match error {
        uv_resolver::ResolveError::NoSolution(none) => {
            let involved: Vec<String> = none.packages().map(ToString::to_string).collect();
            let is_required = |name: &String| requirements.iter().any(|one| one.name() == name && !one.has_marker());
            unknown.retain(|name| involved.contains(name) || is_required(name));
            if unknown.is_empty() {
                let report_text = to_single_line(none.report());
                if settings.connectivity.is_offline() && needs_network(&report_text) {
                    return ResolveError::Offline(name_list(requirements));
                }
                let reason = truncate(restore_equals(&report_text, &involved));
                return ResolveError::NoSolution { target: target.name(), reason, involved, unbuilt: Vec::new() };
            }
            let others = || {
                requirements.iter().map(Requirement::name).chain(target.built_in().iter().map(|one| one.name.as_str()))
            };
            let mut similar: Vec<String> = unknown.iter().flat_map(|name| similar_names(name, others())).collect();
            similar.dedup();
            similar.retain(|name| !unknown.contains(name));
            let sources = settings.sources();
            let searched = match sources.is_empty() {
                true => "no index is configured: UV_NO_INDEX, PIP_NO_INDEX or `no-index` is set".to_owned(),
                false => format!("searched {}", sources.join(", ")),
            };
            ResolveError::NotFound { names: unknown, similar_names: similar, searched }
        }
        uv_resolver::ResolveError::Client(error) if matches!(error.kind(), ErrorKind::Offline(_)) => {
            ResolveError::Offline(name_list(requirements))
        }
        error => {
            if let Some(refused) = url_dependency_error(&error) {
                return refused;
            }
            if let Some(forbidden_address) = find_middleware_error::<ForbiddenAddress>(&error) {
                return ResolveError::ForbiddenAddress(forbidden_address.into());
            }
            if let Some(too_complex) = find_middleware_error::<MetadataTooComplex>(&error) {
                return ResolveError::MetadataTooComplex(too_complex.into());
            }
            let reason = truncate(to_single_line(&chain(&error)));
            ResolveError::Index { reason, source: error.into() }
        }
    }
}

/// Returns the error for a package that is required from a URL, in one line and without colours, if that is the cause.
fn url_dependency_error(error: &uv_resolver::ResolveError) -> Option<ResolveError> {
    let uv_resolver::ResolveError::Dependencies(cause, by, version, _) = error else { return None };
    match &**cause {
        uv_resolver::ResolveError::DisallowedUrl { name, url } => {
            let (by, name, url) = (format!("{by} {version}"), name.to_string(), truncate(to_single_line(url)));
            Some(ResolveError::UrlDependency { by, name, url })
        }
        other => url_dependency_error(other),
    }
}

fn name_list(requirements: &[Requirement]) -> String {
    requirements.iter().map(Requirement::name).collect::<Vec<_>>().join(", ")
}

/// Formats an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Returns true if a report blames missing cache entries. The resolver exposes this only in the hints that it prints.
fn needs_network(report_text: &str) -> bool {
    ["was not found in the cache", "to be downloaded from a registry"].iter().any(|why| report_text.contains(why))
}

/// Restores the `==` that the resolver's report omits between one of these names and a single version.
fn restore_equals(report_text: &str, names: &[String]) -> String {
    const SINGLE: &str = "there is no version of ";
    let mut parts = report_text.split(SINGLE);
    let mut restored = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let begins = |name: &&String| {
            part.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut named = names.iter().filter(begins);
        restored.push_str(SINGLE);
        match (named.next(), named.next()) {
            (Some(name), None) => restored.extend([name, "==", &part[name.len()..]]),
            // If one name is another followed by a digit, the right one cannot be determined.
            _ => restored.push_str(part),
        }
    }
    restored
}

/// Removes colours and line breaks from a report.
fn to_single_line(report: &str) -> String {
    let mut line = String::new();
    let mut chars = report.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => while chars.next().is_some_and(|c| c != 'm') {},
            c if c.is_whitespace() || c.is_control() => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
            }
            c => line.push(c),
        }
    }
    line.trim().to_owned()
}

/// Truncates a line to 600 characters.
fn truncate(line: String) -> String {
    match line.char_indices().nth(600) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_equals_before_single_version() {
        let names = ["requests", "a", "a1"].map(str::to_owned);
        for (report_text, expected) in [
            ("Because there is no version of requests99.0 and", "Because there is no version of requests==99.0 and"),
            ("there is no version of a2.0", "there is no version of a==2.0"),
            ("there is no version of a12.0", "there is no version of a12.0"),
            ("there is no version of other1.0", "there is no version of other1.0"),
            ("requests99.0", "requests99.0"),
        ] {
            assert_eq!(restore_equals(report_text, &names), expected);
        }
    }

    #[test]
    fn detects_cache_misses_in_formatted_reports() {
        assert!(needs_network(&to_single_line("Because \u{1b}[1mx\u{1b}[0m was not\n  found in the cache and")));
        assert!(needs_network(&to_single_line("x==1 needs to be downloaded from a registry")));
        assert!(!needs_network(&to_single_line("there are no versions of network")));
    }
}
