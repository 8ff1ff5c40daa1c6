//! The runtimes that the user added.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_core::NamedLanguage;
use codebox_files::private_dir;

use crate::error::WasmError;
use crate::store::seal::{Durability, write_atomic};
use crate::store::{RuntimeSpec, StoreDirs};

/// Registry of added runtimes: a `runtime.toml` for each, under its name.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

/// File name extension of a description.
const EXTENSION: &str = "toml";

impl Registry {
    /// Creates the registry below these directories, without accessing them.
    pub fn new(dirs: &StoreDirs) -> Self {
        Self { dir: dirs.data.join("added") }
    }

    /// Returns the directory of the descriptions.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the added runtimes by name: the description of each, or the error of reading it.
    ///
    /// # Errors
    /// [`WasmError::Io`] if the directory cannot be read.
    pub fn entries(&self) -> Result<BTreeMap<String, Result<RuntimeSpec, WasmError>>, WasmError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => return Err(WasmError::io("list", &self.dir)(e)),
        };
        let mut found = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(WasmError::io("list", &self.dir))?.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            if let (Some(name), true) = (name, path.extension().is_some_and(|ending| ending == EXTENSION)) {
                found.insert(name.to_owned(), read(&path, name));
            }
        }
        Ok(found)
    }

    /// Adds a runtime and replaces one of the same name.
    ///
    /// # Errors
    /// [`WasmError::Io`] if the description cannot be written.
    pub fn add(&self, spec: &RuntimeSpec) -> Result<(), WasmError> {
        private_dir(&self.dir).map_err(WasmError::io("create", &self.dir))?;
        let path = self.path(&spec.name);
        let text = toml::to_string(spec).map_err(|e| WasmError::damaged(&path, e.to_string()))?;
        write_atomic(&path, text.as_bytes(), Durability::Durable)
    }

    /// Removes a runtime. Returns true if one of this name existed.
    ///
    /// # Errors
    /// [`WasmError::Io`] if the runtime's file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, WasmError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(WasmError::io("remove", &path)(e)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{EXTENSION}"))
    }
}

/// Reads a description and checks that it is for this name.
fn read(path: &Path, name: &str) -> Result<RuntimeSpec, WasmError> {
    let text = fs::read_to_string(path).map_err(WasmError::io("read", path))?;
    let spec: RuntimeSpec = toml::from_str(&text).map_err(|e| WasmError::damaged(path, e.message()))?;
    let is_its_language =
        matches!(&*spec.languages, [own] if own.name == name && NamedLanguage::new(own.clone()).is_ok());
    match spec.name == name && is_its_language && spec.is_consistent() && spec.component.is_some() {
        true => Ok(spec),
        false => Err(WasmError::damaged(path, "it does not describe an added runtime of this name")),
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::{Adapter, LanguageSpec};

    use super::*;
    use crate::store::ComponentFile;

    #[test]
    fn reads_back_added_runtime() {
        let home = tempfile::tempdir().expect("a directory");
        let registry =
            Registry::new(&StoreDirs { data: home.path().into(), cache: home.path().into(), installation: None });
        assert!(registry.entries().expect("the registry is empty").is_empty());
        let lua = LanguageSpec {
            name: "lua".to_owned(),
            extensions: vec!["lua".to_owned()],
            adapter: Some(Adapter::Lua),
            ..LanguageSpec::default()
        };
        let spec = RuntimeSpec::for_component(lua, ComponentFile::of(b"no component"));
        registry.add(&spec).expect("it can be written");
        let found = |name: &str| registry.entries().expect("it can be listed").remove(name).expect("it is there");
        assert_eq!(found("lua").expect("it can be read"), spec);
        assert!(registry.remove("lua").expect("it can be removed"));
        assert!(!registry.remove("lua").expect("the registry is empty"));
        fs::write(home.path().join("added/x.toml"), "name = 1").expect("the directory is there");
        assert!(matches!(found("x"), Err(WasmError::Damaged { .. })));
        assert!(registry.remove("x").expect("a damaged entry is removable"));
    }
}
