//! Choice of one version of a package.

use node_semver::{Range, Version};
use serde_json::Value;

use super::metadata::Packument;
use super::spec::{VersionSpec, range_includes};
use super::target::Target;

/// Returns the version that npm would choose: `latest` if it is in the range, otherwise the highest version in the
/// range, with preference for those that support this version of Node and are not deprecated.
pub(super) fn pick<'p>(packument: &'p Packument, wanted: &VersionSpec) -> Option<(&'p str, &'p Value)> {
    let range = match wanted {
        VersionSpec::Tag(tag) => return find_version(packument, packument.tags.get(tag)?),
        VersionSpec::Range(range) => range,
    };
    let latest = packument.tags.get("latest").and_then(|version| find_version(packument, version));
    if let Some((version, manifest)) = latest
        && (range_includes(range, version) || *range == Range::any())
        && Target::supports_engine(manifest)
        && !is_deprecated(manifest)
    {
        return latest;
    }
    let found = packument.versions.iter().filter_map(|(text, manifest)| {
        let version = Version::parse(text).ok()?;
        let engine = Target::supports_engine(manifest);
        let sound = !is_deprecated(manifest);
        range.satisfies(&version).then_some(((engine && sound, engine, sound, version), (text.as_str(), manifest)))
    });
    found.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, found)| found)
}

fn find_version<'p>(packument: &'p Packument, version: &str) -> Option<(&'p str, &'p Value)> {
    packument.versions.get_key_value(version).map(|(text, manifest)| (text.as_str(), manifest))
}

fn is_deprecated(manifest: &Value) -> bool {
    match &manifest["deprecated"] {
        Value::Null | Value::Bool(false) => false,
        Value::String(reason) => !reason.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pick_version(wanted: &str) -> Option<String> {
        let packument: Packument = serde_json::from_value(json!({
            "dist-tags": {"latest": "2.1.0", "next": "3.0.0-rc.1", "gone": "9.9.9"},
            "versions": {
                "1.0.0": {}, "1.2.0": {"deprecated": "use 1.1"}, "1.1.0": {}, "1.9.0": {"engines": {"node": ">=99"}},
                "2.1.0": {}, "2.2.0": {}, "3.0.0-rc.1": {}, "4.0.0": {"deprecated": "all of it"}, "nonsense": {}
            }
        }))
        .expect("a packument");
        pick(&packument, &VersionSpec::read(wanted).expect("a range")).map(|(version, _)| version.to_owned())
    }

    #[test]
    fn picks_same_version_as_npm() {
        for (wanted, version) in [
            ("latest", Some("2.1.0")),
            ("*", Some("2.1.0")),
            ("", Some("2.1.0")),
            ("^2", Some("2.1.0")),
            (">2.1.0 <3", Some("2.2.0")),
            ("^1", Some("1.1.0")),
            ("~1.2", Some("1.2.0")),
            ("^1.9", Some("1.9.0")),
            ("next", Some("3.0.0-rc.1")),
            (">=3", Some("4.0.0")),
            ("^3.0.0-rc.0", Some("3.0.0-rc.1")),
            ("gone", None),
            ("missing", None),
            ("^7", None),
        ] {
            assert_eq!(pick_version(wanted).as_deref(), version, "{wanted}");
        }
    }
}
