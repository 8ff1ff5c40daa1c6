//! What packages are chosen for.

use node_semver::Version;
use serde_json::Value;

/// The version of Node that the JavaScript runtime has the interfaces of; a test holds it against the runtime.
pub(super) const NODE: Version = Version::new(22, 12, 0);

/// What packages are chosen for: the container's system, since one resolution serves both tiers. What names a system is
/// told as machine code.
pub(super) struct Target;

impl Target {
    /// The name of the whole, for what was chosen for it.
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

    /// Whether a manifest's `os`, `cpu` and `libc` allow it, and whether they name any.
    pub(super) fn admits(manifest: &Value) -> (bool, bool) {
        let asked = [("os", "linux"), ("cpu", Self::cpu()), ("libc", "glibc")];
        let named = |key: &str| words(&manifest[key]);
        let admitted = asked.iter().all(|(key, here)| is_listed(&named(key), here));
        let restricted = asked.iter().any(|(key, _)| named(key).iter().any(|word| *word != "any"));
        (admitted, restricted)
    }

    /// Whether `engines.node` allows the runtime's version.
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

/// As npm reads such a list: `!x` forbids x, and if anything is named without that, it has to be among it.
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
