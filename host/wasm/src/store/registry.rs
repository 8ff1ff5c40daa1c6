//! The runtimes that the user added.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::error::WasmError;
use crate::store::seal::write_whole;
use crate::store::{RuntimeSpec, StoreDirs, private_dir};

/// Descriptions of added runtimes: a `runtime.toml` for each, under its name.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

/// The ending of a description's file.
const ENDING: &str = "toml";

impl Registry {
    /// The registry below these directories; touches nothing.
    pub fn new(dirs: &StoreDirs) -> Self {
        Self { dir: dirs.data.join("added") }
    }

    /// The added runtimes, by name.
    ///
    /// # Errors
    /// [`WasmError::Io`] when the directory or a file in it cannot be read, [`WasmError::Damaged`] when a file is no
    /// description.
    pub fn specs(&self) -> Result<Vec<RuntimeSpec>, WasmError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(WasmError::io("list", &self.dir)(e)),
        };
        let mut specs = Vec::new();
        for entry in entries {
            let path = entry.map_err(WasmError::io("list", &self.dir))?.path();
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(WasmError::io("read", &path))?;
            specs.push(RuntimeSpec::parse(&text).map_err(|e| WasmError::damaged(&path, e.to_string()))?);
        }
        specs.sort_by(|one: &RuntimeSpec, other| one.name.cmp(&other.name));
        Ok(specs)
    }

    /// Adds a runtime, in the place of one of the same name.
    ///
    /// # Errors
    /// [`WasmError::Io`] when it cannot be written.
    pub fn add(&self, spec: &RuntimeSpec) -> Result<(), WasmError> {
        private_dir(&self.dir).map_err(WasmError::io("create", &self.dir))?;
        let path = self.path(&spec.name);
        let text = toml::to_string(spec).map_err(|e| WasmError::damaged(&path, e.to_string()))?;
        write_whole(&path, text.as_bytes())
    }

    /// Forgets a runtime; tells whether there was one of this name.
    ///
    /// # Errors
    /// [`WasmError::Io`] when its file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, WasmError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(WasmError::io("remove", &path)(e)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{ENDING}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ComponentFile;

    #[test]
    fn what_was_added_is_read_again() {
        let home = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(&StoreDirs { data: home.path().into(), cache: home.path().into() });
        assert_eq!(registry.specs().expect("nothing is there"), []);
        let spec = RuntimeSpec::of_component("lua", &["lua".to_owned()], ComponentFile { sha256: "ab".repeat(32) });
        registry.add(&spec).expect("it can be written");
        assert_eq!(registry.specs().expect("it can be read"), [spec]);
        assert!(registry.remove("lua").expect("it can be removed"));
        assert!(!registry.remove("lua").expect("nothing is there"));
        fs::write(home.path().join("added/x.toml"), "name = 1").expect("the directory is there");
        assert!(matches!(registry.specs(), Err(WasmError::Damaged { .. })));
    }
}
