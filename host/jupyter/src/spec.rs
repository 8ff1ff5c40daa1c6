//! Kernel specifications, by which editors find kernels.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use codebox_core::{Language, ResultKind, RunnerError};
use jupyter_protocol::JupyterKernelspec;

/// Argument that clients replace with the path of the connection file.
const CONNECTION_FILE: &str = "{connection_file}";

/// Name of the file in the directory of a kernel.
const FILE: &str = "kernel.json";

/// Most characters of the name of a kernel.
const MAX_NAME_LEN: usize = 64;

/// Description of a kernel for editors.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name of the kernel, which notebooks have in their metadata.
    pub name: String,
    /// Name that editors show.
    pub display_name: String,
    /// Language of the cells.
    pub language: Language,
    /// Command that starts the kernel, without the connection file, which is its last argument.
    pub command: Vec<String>,
    /// Variables of the kernel.
    pub env: HashMap<String, String>,
}

impl Spec {
    /// Writes the specification below `prefix`, such as the directory of a virtual environment, or else below the data directory of the
    /// user: `$JUPYTER_DATA_DIR`, or the default of the system. An earlier one of the same name is replaced. Returns its directory.
    ///
    /// # Errors
    /// Returns an error if the name is not one for kernels (letters, digits, `-`, `_` and `.`), if there is no data directory, or if the
    /// file cannot be written.
    pub fn install(&self, prefix: Option<&Path>) -> Result<PathBuf, RunnerError> {
        let invalid = |line: String, fix: &str| RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix);
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = &self.name;
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.starts_with('.') || !name.chars().all(is_allowed) {
            let line = format!("{name:?} is not a name for a kernel");
            return Err(invalid(line, "use letters, digits, -, _ and ."));
        }
        let data_dir = match prefix {
            Some(prefix) => prefix.join("share").join("jupyter"),
            None => user_data_dir().ok_or_else(|| {
                invalid("cannot find the data directory of Jupyter".to_owned(), "set JUPYTER_DATA_DIR, or use --prefix")
            })?,
        };
        // Jupyter compares names without regard to case.
        let dir = data_dir.join("kernels").join(name.to_lowercase());
        let failed = |error: io::Error| {
            let line = format!("cannot write {}: {error}", dir.join(FILE).display());
            invalid(line, "name another directory with --prefix")
        };
        fs::create_dir_all(&dir).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(&dir).map_err(failed)?;
        let text = serde_json::to_string_pretty(&self.document())
            .map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        writeln!(file, "{text}").map_err(failed)?;
        #[cfg(unix)]
        {
            // Other users of an environment can use the kernel, unless its command or variables may have secrets.
            use std::os::unix::fs::PermissionsExt as _;
            let is_private = self.command.iter().any(|word| word.starts_with("--env"));
            let readable = fs::Permissions::from_mode(if is_private { 0o600 } else { 0o644 });
            file.as_file().set_permissions(readable).map_err(failed)?;
        }
        file.persist(dir.join(FILE)).map_err(|error| failed(error.error))?;
        Ok(dir)
    }

    fn document(&self) -> JupyterKernelspec {
        let mut argv = self.command.clone();
        argv.push(CONNECTION_FILE.to_owned());
        JupyterKernelspec {
            argv,
            display_name: self.display_name.clone(),
            language: self.language.as_str().to_owned(),
            metadata: Some(HashMap::new()),
            // A signal would reach the process alone, and on Windows there is none.
            interrupt_mode: Some("message".to_owned()),
            env: Some(self.env.clone()),
        }
    }
}

fn user_data_dir() -> Option<PathBuf> {
    match env::var_os("JUPYTER_DATA_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Some(dir.into()),
        None => jupyter_zmq_client::user_data_dir().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_written_below_the_prefix() {
        let prefix = tempfile::tempdir().expect("a directory");
        let mut spec = Spec {
            name: "Codebox-Python".to_owned(),
            display_name: "Python in a sandbox".to_owned(),
            language: Language::Python,
            command: ["codebox", "kernel", "run"].map(str::to_owned).to_vec(),
            env: HashMap::from([("CODEBOX_HOME".to_owned(), "/home".to_owned())]),
        };
        for _ in 0..2 {
            let dir = spec.install(Some(prefix.path())).expect("a kernel");
            assert_eq!(dir, prefix.path().join("share/jupyter/kernels/codebox-python"));
            let text = fs::read_to_string(dir.join(FILE)).expect("a file");
            let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(document["argv"], serde_json::json!(["codebox", "kernel", "run", CONNECTION_FILE]));
            assert_eq!(document["interrupt_mode"], "message");
        }
        for name in ["", "../x", "a/b", ".x", "a b", "\u{e4}"] {
            name.clone_into(&mut spec.name);
            spec.install(Some(prefix.path())).expect_err(name);
        }
    }
}
