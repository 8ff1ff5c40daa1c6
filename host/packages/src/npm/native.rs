//! Detection of packages that only a container can use.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reason why a package counts as native.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Native {
    /// The package names the systems that it supports.
    System,
    /// The package contains a native add-on, ready to be loaded.
    Addon,
    /// The package builds or downloads its native add-on during installation. No tier supports it, since install
    /// scripts never run.
    Script,
}

impl Native {
    /// Returns true if a container can use the package.
    #[must_use]
    pub fn works_in_container(self) -> bool {
        self != Self::Script
    }
}

impl fmt::Display for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "is built for one platform",
            Self::Addon => "contains a native add-on",
            Self::Script => "builds its native add-on with an install script, which codebox never runs",
        })
    }
}

/// A package that needs more than WebAssembly offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativePackage {
    /// The package's name and version.
    pub package: String,
    /// The reason why it is native.
    pub native: Native,
}

/// Classifies an unpacked package by the names of its files and by `manifest`, its package.json.
pub(super) fn detect_native<'n>(names: impl Iterator<Item = &'n str>, manifest: &Value) -> Option<Native> {
    let mut builds = manifest["gypfile"].as_bool() == Some(true);
    let mut addon = false;
    for name in names {
        // Tests and examples of packages contain unused add-ons, but a name does not identify those.
        addon |= name.ends_with(".node") && name.len() > ".node".len();
        builds |= name == "binding.gyp";
    }
    if addon { Some(Native::Addon) } else { builds.then_some(Native::Script) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn detects_native_packages_by_file_names() {
        let of = |names: &[&str], manifest| detect_native(names.iter().copied(), &manifest);
        assert_eq!(of(&["index.js", "package.json"], json!({"scripts": {"postinstall": "x"}})), None);
        assert_eq!(of(&["prebuilds/linux-x64/a.node"], json!({})), Some(Native::Addon));
        assert_eq!(of(&["binding.gyp", "src/a.cc"], json!({})), Some(Native::Script));
        assert_eq!(of(&["binding.gyp", "build/Release/a.node"], json!({})), Some(Native::Addon));
        assert_eq!(of(&["index.js"], json!({"gypfile": true})), Some(Native::Script));
        assert_eq!(of(&["index.js"], json!({"gypfile": false})), None);
    }
}
