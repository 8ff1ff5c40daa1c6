//! A runtime's description, as `runtime.toml` gives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::WasmError;

/// What codebox knows of a language's runtime before it is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSpec {
    /// The runtime's name, which is also its folder's.
    pub name: String,
    /// The language it runs.
    pub language: String,
    /// Endings of the files it runs, without the dot.
    pub extensions: Vec<String>,
    /// The licence of what is installed.
    pub licence: String,
    /// Where it comes from, where it is not part of codebox.
    pub package: Option<Package>,
    /// What is built into codebox, where it is.
    pub built_in: Option<BuiltIn>,
    /// The component that it is, where the user added it.
    pub component: Option<ComponentFile>,
    /// The member that is the module, relative to the unpacked package.
    pub module: String,
    /// The member that holds the language's library and the name it gets in the guest's library directory.
    pub library: Option<(String, String)>,
    /// The versions of the packages that the library brings, by their names as package indexes spell them.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// The packages of such modules as are not named as their package is, by module.
    #[serde(default)]
    pub modules: BTreeMap<String, String>,
    /// Archives inside the library that have to be files of their own.
    #[serde(default)]
    pub data: Vec<DataArchive>,
    /// Patches of the module that are applied before it is compiled, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// The memory images to make, each building on earlier ones; a component has none.
    #[serde(default)]
    pub image: Vec<ImageRecipe>,
}

/// A package of an index, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The package's name in the index.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// The sha256 of its wheel, in hexadecimal.
    pub sha256: String,
    /// Bytes of its wheel.
    pub size: u64,
    /// Members of the wheel that are kept; one that ends in a slash stands for everything below it.
    pub members: Vec<String>,
}

/// A module that is part of codebox itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltIn {
    /// Its version.
    pub version: String,
    /// Its sha256, in hexadecimal.
    pub sha256: String,
}

/// A component that the user added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentFile {
    /// Its sha256, in hexadecimal.
    pub sha256: String,
}

/// An archive inside the library archive that guests need as real files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataArchive {
    /// Its name inside the library archive.
    pub member: String,
    /// The directory the guest finds its content in.
    pub guest: String,
}

/// What a memory image holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecipe {
    /// The image's name.
    pub name: String,
    /// The image whose imports this one has too.
    pub base: Option<String>,
    /// Modules imported into it, in order.
    pub imports: Vec<String>,
}

impl RuntimeSpec {
    /// Reads a description.
    ///
    /// # Errors
    /// [`WasmError::Prelude`] with the parser's message when the text is not one.
    pub fn parse(text: &str) -> Result<Self, WasmError> {
        let spec: Self = toml::from_str(text).map_err(|e| WasmError::Prelude(format!("runtime.toml: {e}")))?;
        if spec.is_consistent() {
            return Ok(spec);
        }
        let rule = "it comes from a package or is built in, and has images, or it is a component, without patches";
        Err(WasmError::Prelude(format!("runtime.toml: {rule}")))
    }

    /// Whether it says where the runtime comes from, and only once.
    pub(crate) fn is_consistent(&self) -> bool {
        match (&self.package, &self.built_in, &self.component) {
            (Some(_), None, None) | (None, Some(_), None) => !self.image.is_empty(),
            (None, None, Some(_)) => self.image.is_empty() && self.library.is_none() && self.patches.is_empty(),
            _ => false,
        }
    }

    /// The description of a component that a user adds for a language.
    pub fn of_component(language: &str, extensions: &[String], component: ComponentFile) -> Self {
        Self {
            name: language.to_owned(),
            language: language.to_owned(),
            extensions: extensions.to_vec(),
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
            image: Vec::new(),
        }
    }

    /// The version of what it is made of.
    pub fn version(&self) -> &str {
        match (&self.package, &self.built_in, &self.component) {
            (Some(package), ..) => &package.version,
            (None, Some(built_in), _) => &built_in.version,
            // Nobody numbers what a user adds.
            (None, None, Some(component)) => component.sha256.get(..12).unwrap_or(&component.sha256),
            (None, None, None) => "",
        }
    }

    /// What it is made of, for reports: a package and its version, or that it is built in.
    pub(crate) fn origin(&self) -> String {
        match &self.package {
            Some(package) => format!("{} {}", package.name, package.version),
            None if self.component.is_some() => format!("added, sha256 {}", self.version()),
            None => format!("built in, {}", self.version()),
        }
    }

    /// All modules that an image is to import: its base's first.
    pub fn imports_of(&self, image: &str) -> Vec<String> {
        let Some(recipe) = self.image.iter().find(|recipe| recipe.name == image) else { return Vec::new() };
        // A base has to stand above its user, so the search ends.
        let base = recipe.base.as_deref().filter(|base| *base != image);
        let mut imports = base.map(|base| self.imports_of(base)).unwrap_or_default();
        imports.extend(recipe.imports.iter().cloned());
        imports
    }

    /// Returns the package with the version that the library brings of a module; nothing for a module of no package.
    pub fn package_of(&self, module: &str) -> Option<(&str, &str)> {
        let spelled = module.replace('_', "-").to_ascii_lowercase();
        let name = self.modules.get(module).unwrap_or(&spelled);
        let (name, version) = self.packages.get_key_value(name)?;
        Some((name, version))
    }

    /// The runtime's folder name: what is installed under it never changes.
    pub(crate) fn folder(&self) -> String {
        match &self.built_in {
            // Its version says where its sources are from; two builds of codebox may have made different ones of them.
            Some(built_in) => format!("{}-{}-{:.8}", self.name, built_in.version, built_in.sha256),
            None => format!("{}-{}", self.name, self.version()),
        }
    }
}
