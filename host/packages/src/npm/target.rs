//! Target system of npm packages.

use node_semver::Version;
use serde_json::Value;

/// Version of Node whose interfaces the JavaScript runtime implements; a test compares it with the runtime.
pub(super) const NODE: Version = Version::new(22, 12, 0);

/// Target system that packages are chosen for: the container's system, since one resolution serves both tiers. Packages
/// that name a system are reported as native.
pub(super) struct Target;

impl Target {
    /// Returns the name of the target, for the key of a resolution.
    pub(super) fn name() -> String {
        format!("node{NODE}-linux-{}-glibc", Self::cpu())
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
    pub(super) fn admits(manifest: &Value) -> (bool, bool) {
        let asked = [("os", "linux"), ("cpu", Self::cpu()), ("libc", "glibc")];
        let named = |key: &str| words(&manifest[key]);
        let admitted = asked.iter().all(|(key, here)| is_listed(&named(key), here));
        let restricted = asked.iter().any(|(key, _)| named(key).iter().any(|word| *word != "any"));
        (admitted, restricted)
    }

    /// Returns true if `engines.node` allows the runtime's version.
    pub(super) fn has_engine(manifest: &Value) -> bool {
        let wanted = manifest["engines"]["node"].as_str().and_then(super::spec::range);
        wanted.is_none_or(|range| range.satisfies(&NODE))
    }
}

fn words(value: &Value) -> Vec<&str> {
    match value {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Evaluates such a list as npm does: `!x` excludes x, and if any entry is without `!`, the value must be among those.
fn is_listed(words: &[&str], here: &str) -> bool {
    if words.is_empty() || words == ["any"] {
        return true;
    }
    let forbidden = words.iter().filter_map(|word| word.strip_prefix('!'));
    let (mut allowed, mut found) = (words.iter().filter(|word| !word.starts_with('!')).peekable(), false);
    let open = allowed.peek().is_none();
    allowed.for_each(|word| found |= *word == here);
    !forbidden.into_iter().any(|word| word == here) && (open || found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_the_runtimes() {
        let process = include_str!("../../../../guest-runtimes/javascript/prelude/src/process.js");
        assert!(
            process.contains(&format!("NODE_VERSION = 'v{NODE}'")),
            "the runtime is of another version than {NODE}"
        );
    }

    #[test]
    fn lists_of_systems_are_read_as_npm_reads_them() {
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
            assert_eq!(Target::admits(&manifest), expected, "{manifest}");
        }
    }
}
