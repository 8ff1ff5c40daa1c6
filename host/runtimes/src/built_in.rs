//! The descriptions and the embedded parts of the runtimes, as of the time codebox was built.

use codebox_core::Language;
use codebox_files::EmbeddedFile;
use codebox_wasm::RuntimeParts;

/// Each language, its `runtime.toml` and the parts of its runtime that are embedded in codebox.
pub(crate) const RUNTIMES: &[(Language, &str, RuntimeParts)] = &[
    (
        Language::Python,
        include_str!("../../../guest-runtimes/python/runtime.toml"),
        RuntimeParts { prelude: PYTHON, patches: PYTHON_PATCHES, digest: PYTHON_DIGEST, module: None },
    ),
    (
        Language::JavaScript,
        include_str!("../../../guest-runtimes/javascript/runtime.toml"),
        RuntimeParts {
            prelude: &[],
            patches: &[],
            digest: "",
            module: Some(EmbeddedFile::new(include_bytes!(concat!(env!("OUT_DIR"), "/javascript.embedded")))),
        },
    ),
];

include!(concat!(env!("OUT_DIR"), "/python.rs"));

#[cfg(test)]
mod tests {
    use std::path::Path;

    use codebox_wasm::RuntimeSpec;

    use super::*;

    #[test]
    fn modules_map_to_bundled_packages() {
        let (_, described, _) = RUNTIMES[0];
        let spec = RuntimeSpec::parse(described).expect("a description");
        assert_eq!(spec.package_of("sklearn"), Some(("scikit-learn", "1.9.1")));
        assert_eq!(spec.package_of("typing_extensions"), Some(("typing-extensions", "4.16.0")));
        assert_eq!(spec.package_of("PIL"), Some(("pillow", "13.0.0")));
        assert_eq!(spec.package_of("json"), None);
        assert!(spec.modules.values().all(|package| spec.packages.contains_key(package)));
    }

    #[test]
    fn descriptions_match_built_in_parts() {
        for (language, described, parts) in RUNTIMES {
            let spec = RuntimeSpec::parse(described).expect("a description");
            assert_eq!(spec.languages.first(), Some(language.spec()));
            let patches: Vec<_> = parts.patches.iter().map(|(name, _)| *name).collect();
            assert_eq!(spec.patches, patches, "{language}");
            assert_eq!(spec.built_in.is_some(), parts.module.is_some(), "{language}");
            if let Some(built_in) = spec.built_in {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-runtimes").join(&spec.name);
                let found = codebox_wasm::sha256_of_file(&folder.join(&spec.module)).expect("it is checked in");
                assert_eq!(found, built_in.sha256, "{language}");
            }
        }
    }
}
