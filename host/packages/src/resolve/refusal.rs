//! Errors of failed resolutions.

use uv_client::ErrorKind;

use super::near::near;
use super::target::Target;
use crate::error::Cause;
use crate::fetch::Tangled;
use crate::house::HouseError;
use crate::reach::{Astray, refused_by};
use crate::requirement::Requirement;
use crate::settings::IndexSettings;
use crate::source::Sdist;

/// Error resolving requirements.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There are no known wheels for a platform.
    #[error("no wheels are available for platform {0}")]
    Platform(String),
    /// No index has some of the names.
    #[error("no package index has {}{}: {searched}", names.join(", "), said(near))]
    NotFound {
        /// The names.
        names: Vec<String>,
        /// Similar names.
        near: Vec<String>,
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
    Unbuilt(Box<Sdist>),
    /// A file of an index, or a wheel built from it, cannot be fetched or used.
    #[error(transparent)]
    File(Box<HouseError>),
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
    Address {
        /// The name and version of the dependent.
        by: String,
        /// The name of the required package.
        name: String,
        /// The URL.
        url: String,
    },
    /// A file has no hash, so its content cannot be verified.
    #[error("the package index has no sha256 for {file}: cannot verify it")]
    Unlocked {
        /// The file.
        file: String,
    },
    /// An index refers to an address that is not allowed.
    #[error(transparent)]
    Astray(Cause),
    /// The requirements of a package cannot be parsed at a bounded cost.
    #[error(transparent)]
    Tangled(Cause),
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

fn said(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(" or ")) }
}

/// Converts the resolver's error.
pub(super) fn of(
    error: uv_resolver::ResolveError,
    mut unknown: Vec<String>,
    wanted: &[Requirement],
    target: &Target,
    settings: &IndexSettings,
) -> ResolveError {
    unknown.sort();
    unknown.dedup();
    match error {
        uv_resolver::ResolveError::NoSolution(none) => {
            let involved: Vec<String> = none.packages().map(ToString::to_string).collect();
            let is_asked_for = |name: &String| wanted.iter().any(|one| one.name() == name && !one.has_marker());
            unknown.retain(|name| involved.contains(name) || is_asked_for(name));
            if unknown.is_empty() {
                let said = plain(none.report());
                if settings.connectivity.is_offline() && wants_network(&said) {
                    return ResolveError::Offline(listed(wanted));
                }
                let reason = shortened(with_equals(&said, &involved));
                return ResolveError::NoSolution { target: target.name(), reason, involved, unbuilt: Vec::new() };
            }
            let others =
                || wanted.iter().map(Requirement::name).chain(target.built_in().iter().map(|one| one.name.as_str()));
            let mut close: Vec<String> = unknown.iter().flat_map(|name| near(name, others())).collect();
            close.dedup();
            close.retain(|name| !unknown.contains(name));
            let sources = settings.sources();
            let searched = match sources.is_empty() {
                true => "no index is configured: UV_NO_INDEX, PIP_NO_INDEX or `no-index` is set".to_owned(),
                false => format!("searched {}", sources.join(", ")),
            };
            ResolveError::NotFound { names: unknown, near: close, searched }
        }
        uv_resolver::ResolveError::Client(error) if matches!(error.kind(), ErrorKind::Offline(_)) => {
            ResolveError::Offline(listed(wanted))
        }
        error => {
            if let Some(refused) = at_address(&error) {
                return refused;
            }
            if let Some(astray) = refused_by::<Astray>(&error) {
                return ResolveError::Astray(astray.into());
            }
            if let Some(tangled) = refused_by::<Tangled>(&error) {
                return ResolveError::Tangled(tangled.into());
            }
            let reason = shortened(plain(&chain(&error)));
            ResolveError::Index { reason, source: error.into() }
        }
    }
}

/// Returns the error for a package that is required from a URL, in one line and without colours, if that is the cause.
fn at_address(error: &uv_resolver::ResolveError) -> Option<ResolveError> {
    let uv_resolver::ResolveError::Dependencies(cause, by, version, _) = error else { return None };
    match &**cause {
        uv_resolver::ResolveError::DisallowedUrl { name, url } => {
            let (by, name, url) = (format!("{by} {version}"), name.to_string(), shortened(plain(url)));
            Some(ResolveError::Address { by, name, url })
        }
        other => at_address(other),
    }
}

fn listed(wanted: &[Requirement]) -> String {
    wanted.iter().map(Requirement::name).collect::<Vec<_>>().join(", ")
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
fn wants_network(said: &str) -> bool {
    ["was not found in the cache", "to be downloaded from a registry"].iter().any(|why| said.contains(why))
}

/// Restores the `==` that the resolver's report omits between one of these names and a single version.
fn with_equals(said: &str, names: &[String]) -> String {
    const SINGLE: &str = "there is no version of ";
    let mut parts = said.split(SINGLE);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let begins = |name: &&String| {
            part.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut named = names.iter().filter(begins);
        whole.push_str(SINGLE);
        match (named.next(), named.next()) {
            (Some(name), None) => whole.extend([name, "==", &part[name.len()..]]),
            // If one name is another followed by a digit, the right one cannot be determined.
            _ => whole.push_str(part),
        }
    }
    whole
}

/// Removes colours and line breaks from a report.
fn plain(report: &str) -> String {
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
fn shortened(line: String) -> String {
    match line.char_indices().nth(600) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_version_is_told_from_its_name() {
        let names = ["requests", "a", "a1"].map(str::to_owned);
        for (said, told) in [
            ("Because there is no version of requests99.0 and", "Because there is no version of requests==99.0 and"),
            ("there is no version of a2.0", "there is no version of a==2.0"),
            ("there is no version of a12.0", "there is no version of a12.0"),
            ("there is no version of other1.0", "there is no version of other1.0"),
            ("requests99.0", "requests99.0"),
        ] {
            assert_eq!(with_equals(said, &names), told);
        }
    }

    #[test]
    fn what_a_cache_lacks_is_seen_through_colours_and_lines() {
        assert!(wants_network(&plain("Because \u{1b}[1mx\u{1b}[0m was not\n  found in the cache and")));
        assert!(wants_network(&plain("x==1 needs to be downloaded from a registry")));
        assert!(!wants_network(&plain("there are no versions of network")));
    }
}
