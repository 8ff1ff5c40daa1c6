//! Target system of npm packages.

use node_semver::Version;
use serde_json::Value;

/// Version of Node whose interfaces the JavaScript runtime implements; a test compares it with the runtime.
pub(super) const NODE_VERSION: Version = Version::new(22, 12, 0);

/// Target system that packages are chosen for: the container's system, since one resolution serves both tiers. Packages
/// that name a system are reported as native.
pub(super) struct Target;

impl Target {
    /// Returns the name of the target, for the key of a resolution.
    pub(super) fn name() -> String {
        format!("node{NODE_VERSION}-linux-{}-glibc", Self::cpu())
    }

    fn cpu() -> &'static str {
        match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            "x86" => "ia32",
            other => other,
        }
    }

    /// Returns two flags: true if a manifest's `os`, `cpu` and `libc` allow the target, and true if they name any
    /// system.
    pub(super) fn supports(manifest: &Value) -> (bool, bool) {
        let properties = [("os", "linux"), ("cpu", Self::cpu()), ("libc", "glibc")];
        let named = |key: &str| string_list(&manifest[key]);
        let admitted = properties.iter().all(|(key, here)| list_allows(&named(key), here));
        let restricted = properties.iter().any(|(key, _)| named(key).iter().any(|word| *word != "any"));
        (admitted, restricted)
    }

    /// Returns true if `engines.node` allows the runtime's version.
    pub(super) fn supports_engine(manifest: &Value) -> bool {
        let wanted = manifest["engines"]["node"].as_str().and_then(super::spec::range);
        wanted.is_none_or(|range| range.satisfies(&NODE_VERSION))
    }
}

fn string_list(value: &Value) -> Vec<&str> {
    match value {
        Value::String(word) => vec![word],
        Value::Array(string_list) => string_list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Evaluates such a list as npm does: `!x` excludes x, and if any entry is without `!`, the value must be among those.
fn list_allows(string_list: &[&str], here: &str) -> bool {
    if string_list.is_empty() || string_list == ["any"] {
        return true;
    }
    let forbidden = string_list.iter().filter_map(|word| word.strip_prefix('!'));
    let (mut allowed, mut found) = (string_list.iter().filter(|word| !word.starts_with('!')).peekable(), false);
    let open = allowed.peek().is_none();
    allowed.for_each(|word| found |= *word == here);
    !forbidden.into_iter().any(|word| word == here) && (open || found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_version_matches_runtime() {
        let process = include_str!("../../../../guest-runtimes/javascript/prelude/src/process.js");
        assert!(
            process.contains(&format!("NODE_VERSION = 'v{NODE_VERSION}'")),
            "the runtime is of another version than {NODE_VERSION}"
        );
    }

    #[test]
    fn evaluates_system_lists_like_npm() {
        for (manifest, expected) in [
            (json!({}), (true, false)),
            (json!({"os": ["linux", "darwin"]}), (true, true)),
            (json!({"os": ["darwin"]}), (false, true)),
            (json!({"os": "darwin"}), (false, true)),
            (json!({"os": ["!win32"]}), (true, true)),
            (json!({"os": ["!linux"]}), (false, true)),
            (json!({"os": ["any"]}), (true, false)),
            (json!({"libc": ["musl"]}), (false, true)),
        ] {
            assert_eq!(Target::supports(&manifest), expected, "{manifest}");
        }
    }
}
