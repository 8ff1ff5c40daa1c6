//! The description of a runtime, as in `runtime.toml`.

use std::collections::BTreeMap;

use codebox_core::LanguageSpec;
use serde::{Deserialize, Serialize};

use crate::code::SplitSpec;
use crate::component::imports_network;
use crate::error::WasmError;
use crate::store::sha256_of;

/// The description of a language's runtime, which codebox has before the runtime is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSpec {
    /// The runtime's name, with which its folder's name starts.
    pub name: String,
    /// The languages of the programs that the runtime runs, its own first.
    #[serde(rename = "language")]
    pub languages: Vec<LanguageSpec>,
    /// The licence of the installed files.
    pub licence: String,
    /// The package that contains the runtime, if it has to be fetched.
    pub package: Option<Package>,
    /// The module that is built into codebox, if the runtime is part of codebox.
    pub built_in: Option<BuiltInModule>,
    /// The component, if the user added the runtime.
    pub component: Option<ComponentFile>,
    /// Path of the module, relative to the unpacked package.
    pub module: String,
    /// Path of the language's library in the package, and its name in the guest's library directory.
    pub library: Option<(String, String)>,
    /// The versions of the packages in the library, by the packages' names in package indexes.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// The packages of modules whose name differs from the name of their package, by module.
    #[serde(default)]
    pub modules: BTreeMap<String, String>,
    /// Archives inside the library that have to be extracted.
    #[serde(default)]
    pub data: Vec<DataArchive>,
    /// Patches of the module that are applied before it is compiled, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// The parts of the module's code that are loaded separately. `None` to load all code at once.
    pub split: Option<SplitSpec>,
    /// A short program. The memory that it writes is mapped when a job starts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample: String,
    /// The memory images to make. Each may extend an earlier one. Empty for a component.
    #[serde(default)]
    pub image: Vec<ImageRecipe>,
}

/// A pinned package of a package index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The package's name in the index.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The sha256 of the wheel, in hexadecimal.
    pub sha256: String,
    /// Size of the wheel in bytes.
    pub size: u64,
    /// Members of the wheel to keep. A name that ends in a slash includes all members below it.
    pub members: Vec<String>,
}

/// A module that is part of codebox itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltInModule {
    /// The module's version.
    pub version: String,
    /// The module's sha256, in hexadecimal.
    pub sha256: String,
}

/// A component that the user added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentFile {
    /// The component's sha256, in hexadecimal.
    pub sha256: String,
    /// True if the component can connect to granted hosts.
    #[serde(default)]
    pub network: bool,
}

impl ComponentFile {
    /// Describes a component.
    pub fn of(wasm: &[u8]) -> Self {
        Self { sha256: sha256_of(wasm), network: imports_network(wasm) }
    }
}

/// An archive inside the library archive that guests need as real files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataArchive {
    /// The archive's name inside the library archive.
    pub member: String,
    /// The guest directory of the archive's contents.
    pub guest: String,
}

/// The contents of a memory image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecipe {
    /// The image's name.
    pub name: String,
    /// The image whose imports this image includes.
    pub base: Option<String>,
    /// The last part of the code that guests of this image start with. Set if the code has parts.
    pub code: Option<String>,
    /// Modules that the image imports, in order.
    pub imports: Vec<String>,
}

impl RuntimeSpec {
    /// Parses a description.
    ///
    /// # Errors
    /// [`WasmError::Prelude`] with the parser's message if the text is malformed, or with the rule that the description
    /// breaks.
    pub fn parse(text: &str) -> Result<Self, WasmError> {
        let spec: Self = toml::from_str(text).map_err(|e| WasmError::Prelude(format!("runtime.toml: {e}")))?;
        if spec.is_consistent() && !spec.languages.is_empty() {
            return Ok(spec);
        }
        let rule = "expected a language, and a package or a built-in module with images, or a component without images and patches";
        Err(WasmError::Prelude(format!("runtime.toml: {rule}")))
    }

    /// Returns true if the description has exactly one source of the runtime, and only the sections that this source
    /// allows.
    pub(crate) fn is_consistent(&self) -> bool {
        match (&self.package, &self.built_in, &self.component) {
            (Some(_), None, None) | (None, Some(_), None) => !self.image.is_empty() && self.has_code_of_images(),
            (None, None, Some(_)) => {
                self.image.is_empty() && self.library.is_none() && self.patches.is_empty() && self.split.is_none()
            }
            _ => false,
        }
    }

    /// Returns true if every image names its code, and no image does if the code has no parts.
    fn has_code_of_images(&self) -> bool {
        let codes = || self.image.iter().map(|recipe| recipe.code.as_deref());
        match &self.split {
            Some(split) => {
                split.is_consistent() && codes().all(|code| code.and_then(|code| split.position(code)).is_some())
            }
            None => codes().all(|code| code.is_none()),
        }
    }

    /// Creates the description of a component that a user adds for a language.
    pub fn for_component(language: LanguageSpec, component: ComponentFile) -> Self {
        Self {
            name: language.name.clone(),
            languages: vec![language],
            licence: String::new(),
            package: None,
            built_in: None,
            component: Some(component),
            module: "component.wasm".to_owned(),
            library: None,
            packages: BTreeMap::new(),
            modules: BTreeMap::new(),
            data: Vec::new(),
            patches: Vec::new(),
            split: None,
            sample: String::new(),
            image: Vec::new(),
        }
    }

    /// Returns the version of the package or module, or the start of a component's sha256.
    pub fn version(&self) -> &str {
        match (&self.package, &self.built_in, &self.component) {
            (Some(package), ..) => &package.version,
            (None, Some(built_in), _) => &built_in.version,
            // A component that the user added has no version.
            (None, None, Some(component)) => component.sha256.get(..12).unwrap_or(&component.sha256),
            (None, None, None) => "",
        }
    }

    /// Returns the runtime's origin for reports: a package and its version, or that it is added or built in.
    pub(crate) fn origin(&self) -> String {
        match &self.package {
            Some(package) => format!("{} {}", package.name, package.version),
            None if self.component.is_some() => format!("added, sha256 {}", self.version()),
            None => format!("built in, {}", self.version()),
        }
    }

    /// Returns the code of the images, each once and the smallest first: the last part of the code, or `None` for all
    /// code that has no parts.
    pub(crate) fn codes(&self) -> Vec<Option<&str>> {
        let mut codes: Vec<_> = self.image.iter().map(|recipe| recipe.code.as_deref()).collect();
        codes.sort_by_key(|code| self.split.as_ref().zip(*code).and_then(|(split, code)| split.position(code)));
        codes.dedup();
        codes
    }

    /// Returns all modules that an image has to import, those of its base first.
    pub fn imports_of(&self, image: &str) -> Vec<String> {
        let mut recipes: Vec<&ImageRecipe> = Vec::new();
        let mut next = Some(image);
        while let Some(recipe) = next.and_then(|name| self.image.iter().find(|recipe| recipe.name == name)) {
            // The bases of a malformed description may form a cycle.
            if recipes.iter().any(|known| known.name == recipe.name) {
                break;
            }
            recipes.push(recipe);
            next = recipe.base.as_deref();
        }
        recipes.iter().rev().flat_map(|recipe| recipe.imports.iter().cloned()).collect()
    }

    /// Returns the package of a module and its version in the library. `None` for a module of no package.
    pub fn package_of(&self, module: &str) -> Option<(&str, &str)> {
        let normalized = module.replace('_', "-").to_ascii_lowercase();
        let name = self.modules.get(module).unwrap_or(&normalized);
        let (name, version) = self.packages.get_key_value(name)?;
        Some((name, version))
    }

    /// Returns the packages of the library and their versions, by name.
    pub fn packages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packages.iter().map(|(name, version)| (name.as_str(), version.as_str()))
    }

    /// Returns the runtime's folder name. The contents of a folder of this name never change.
    pub(crate) fn folder(&self) -> String {
        match &self.built_in {
            // The version denotes the source code, and two builds of codebox may have compiled it to different modules.
            Some(built_in) => format!("{}-{}-{:.8}", self.name, built_in.version, built_in.sha256),
            None => format!("{}-{}", self.name, self.version()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(images: &[(&str, Option<&str>)]) -> RuntimeSpec {
        let component = ComponentFile { sha256: String::new(), network: false };
        let recipe = |(name, base): &(&str, Option<&str>)| ImageRecipe {
            name: (*name).to_owned(),
            base: base.map(str::to_owned),
            code: None,
            imports: vec![format!("module_{name}")],
        };
        let image = images.iter().map(recipe).collect();
        RuntimeSpec { image, ..RuntimeSpec::for_component(LanguageSpec::default(), component) }
    }

    #[test]
    fn lists_imports_of_bases_first() {
        let spec = spec(&[("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("missing"))]);
        assert_eq!(spec.imports_of("c"), ["module_a", "module_b", "module_c"]);
        assert_eq!(spec.imports_of("d"), ["module_d"]);
        assert_eq!(spec.imports_of("missing"), [""; 0]);
    }

    #[test]
    fn visits_each_image_of_a_cycle_once() {
        let spec = spec(&[("a", Some("b")), ("b", Some("a")), ("c", Some("c"))]);
        assert_eq!(spec.imports_of("a"), ["module_b", "module_a"]);
        assert_eq!(spec.imports_of("c"), ["module_c"]);
    }
}
