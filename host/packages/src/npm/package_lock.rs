//! npm's own files: the dependencies of a `package.json`, and the exact packages of a `package-lock.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::name::NpmName;
use super::spec::NpmSpec;
use super::target::Target;
use super::tree::{NpmPackage, NpmTree, NpmTreeError, requested};

/// Directory in front of the places of packages in a lock.
const MODULES: &str = "node_modules/";

/// Address of a package whose lock has none.
const NO_ADDRESS: &str = "https://registry.invalid/";

/// Parses the `dependencies` of a `package.json`.
///
/// # Errors
/// A message for text that is not JSON, or a dependency that is not in a registry.
pub fn parse_package_json(text: &str) -> Result<Vec<NpmSpec>, String> {
    #[derive(Deserialize)]
    struct PackageJson {
        #[serde(default)]
        dependencies: BTreeMap<String, String>,
    }
    let package: PackageJson = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let spec = |(name, wanted): (&String, &String)| {
        let wanted = if wanted.is_empty() { "*" } else { wanted };
        format!("{name}@{wanted}").parse().map_err(|error| format!("dependency {name}: {error}"))
    };
    package.dependencies.iter().map(spec).collect()
}

/// Parses a `package-lock.json` of version 2 or 3 as the tree of these specs. Development dependencies, and optional ones for other
/// systems, are left out.
///
/// # Errors
/// [`NpmTreeError::Invalid`] for another version and for packages that are not in a registry, and the errors of a tree.
pub fn parse_package_lock(text: &str, specs: &[NpmSpec]) -> Result<NpmTree, NpmTreeError> {
    let invalid = |reason: String| NpmTreeError::Invalid(reason);
    let lock: Value = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let Some(entries) = lock["packages"].as_object() else {
        return Err(invalid("it has no packages; npm 7 or later writes them".to_owned()));
    };
    let mut packages = Vec::new();
    for (path, entry) in entries {
        // The first entry is the project itself.
        let Some(place) = path.strip_prefix(MODULES) else { continue };
        let (is_supported, names_system) = Target::supports(entry);
        let is_true = |key: &str| entry[key].as_bool() == Some(true);
        let is_elsewhere = (is_true("optional") || is_true("devOptional")) && !is_supported;
        if is_true("dev") || is_true("devOptional") || is_true("inBundle") || is_elsewhere {
            continue;
        }
        let text = |key: &str| {
            entry[key].as_str().ok_or_else(|| invalid(format!("{place} has no {key}: it is not in a registry")))
        };
        let own_name = entry["name"].as_str().unwrap_or_else(|| place.rsplit(MODULES).next().unwrap_or(place));
        let name: NpmName = own_name.parse().map_err(|_| invalid(format!("{own_name:?} is no name of a package")))?;
        // npm can be configured to write no addresses. The address of a locked package is that in the registry.
        let resolved = entry["resolved"].as_str().unwrap_or(NO_ADDRESS);
        let url = resolved.parse().map_err(|error| invalid(format!("{place}: {error}")))?;
        packages.push(NpmPackage {
            place: place.to_owned(),
            name,
            version: text("version")?.to_owned(),
            integrity: text("integrity")?.parse().map_err(|error| invalid(format!("{place}: {error}")))?,
            url,
            system: names_system,
        });
    }
    packages.sort_by(|a, b| a.place.cmp(&b.place));
    let tree = NpmTree { requested: requested(specs), packages };
    tree.check()?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str =
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==";

    #[test]
    fn dependencies_are_specs() {
        let text = r#"{"dependencies": {"lodash": "^4", "@s/a": "1.x", "b": ""}, "devDependencies": {"c": "1"}}"#;
        let specs: Vec<String> = parse_package_json(text).expect("specs").iter().map(ToString::to_string).collect();
        assert_eq!(specs, ["@s/a@1.x", "b@*", "lodash@^4"]);
        assert_eq!(parse_package_json("{}"), Ok(Vec::new()));
        for bad in [r#"{"dependencies": {"a": "git+https://x/y"}}"#, r#"{"dependencies": {"a": "file:../b"}}"#, "x"] {
            assert!(parse_package_json(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn locked_packages_keep_their_places() {
        let entry = |rest: &str| {
            format!(r#"{{"version": "1.0.0", "resolved": "http://127.0.0.1/a.tgz", "integrity": "{DIGEST}"{rest}}}"#)
        };
        let (plain, dev) = (entry(""), entry(r#", "dev": true"#));
        let elsewhere = entry(r#", "optional": true, "os": ["darwin"]"#);
        let text = format!(
            r#"{{"lockfileVersion": 3, "packages": {{"": {{}}, "node_modules/a": {plain}, "node_modules/a/node_modules/@s/b": {plain},
            "node_modules/dev": {dev}, "node_modules/mac": {elsewhere}}}}}"#
        );
        let tree = parse_package_lock(&text, &["a@^1".parse().expect("a spec")]).expect("a tree");
        let places: Vec<(&str, &str)> =
            tree.packages.iter().map(|package| (package.place.as_str(), package.name.as_str())).collect();
        assert_eq!(places, [("a", "a"), ("a/node_modules/@s/b", "@s/b")]);
        assert_eq!(tree.check_satisfies(&["a@^1".parse().expect("a spec")]), Ok(()));
        let linked = r#"{"packages": {"node_modules/a": {"resolved": "packages/a", "link": true}}}"#;
        for bad in [linked, r#"{"dependencies": {}}"#, "", r#"{"packages": {"node_modules/../a": {"version": "1"}}}"#] {
            assert!(parse_package_lock(bad, &[]).is_err(), "{bad}");
        }
    }
}
