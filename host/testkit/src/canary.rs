//! Secrets that must not leave the host, and the checks for leaks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use crate::{Codebox, Kit, Listener, ProcessResult};

/// Common prefix of all canaries; the rest of each is unique.
const PREFIX: &str = "canary-";

/// Temporary directory with a grant, secrets around the grant, and a listener.
///
/// ```text
/// PLACE/canary             a secret file
/// PLACE/grant/             the directory that the guest is granted
/// PLACE/grant-evil/canary  a secret in a directory whose name starts with the granted directory's name
/// ```
/// The variable `CODEBOX_CANARY` in the program's environment holds the same secret.
#[derive(Debug)]
pub struct Canaries {
    place: TempDir,
    secret: String,
    listener: Listener,
}

impl Canaries {
    /// Creates the directories, the secrets and the listener.
    ///
    /// # Errors
    /// Fails if the temporary directory or a file in it cannot be created.
    pub fn plant(kit: &Kit) -> Result<Self> {
        let place = kit.folder()?;
        let unique = place.path().file_name().unwrap_or_default().to_string_lossy().replace('-', "");
        let secret = format!("{PREFIX}{unique}{}", std::process::id());
        let canaries = Self { place, secret, listener: Listener::start()? };
        for folder in ["grant", "grant-evil"] {
            fs::create_dir(canaries.path(folder))?;
        }
        for file in canaries.files() {
            fs::write(&file, &canaries.secret)?;
            private(&file)?;
        }
        Ok(canaries)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Returns the directory to grant.
    #[must_use]
    pub fn grant(&self) -> PathBuf {
        self.path("grant")
    }

    /// Returns the secret file outside the grant.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path("canary")
    }

    fn files(&self) -> [PathBuf; 2] {
        [self.file(), self.path("grant-evil/canary")]
    }

    /// Returns the common prefix of all canaries.
    #[must_use]
    pub fn prefix(&self) -> &'static str {
        PREFIX
    }

    /// Returns the secret.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the listener's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Sets the secret in the environment of the program under test.
    #[must_use]
    pub fn around(&self, codebox: Codebox) -> Codebox {
        codebox.env("CODEBOX_CANARY", &self.secret)
    }

    /// Checks that the output of a run shows neither the secret nor an `ESCAPE` line, that no secret was changed, that
    /// the directories around the grant are unchanged, and that the listener got no connection.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn check(&self, ran: &ProcessResult) -> Result<()> {
        for (name, bytes) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            ensure!(!contains(bytes, self.secret.as_bytes()), "the canary is visible in {name}");
            ensure!(!contains(bytes, b"ESCAPE "), "{name} reports an escape: {}", excerpt(bytes));
        }
        self.check_host()
    }

    /// Performs the part of [`check`](Self::check) that inspects only this machine.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn check_host(&self) -> Result<()> {
        for file in self.files() {
            let now = fs::read(&file).unwrap_or_default();
            ensure!(now == self.secret.as_bytes(), "{} was changed", file.display());
        }
        self.check_names()?;
        self.check_guest_files(&self.grant())?;
        ensure!(self.listener.connections() == 0, "listener was contacted");
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let (around, beside) = (names(self.place.path())?, names(&self.path("grant-evil"))?);
        ensure!(around == ["canary", "grant", "grant-evil"], "the directory around the grant changed: {around:?}");
        ensure!(beside == ["canary"], "the directory beside the grant changed: {beside:?}");
        for path in ["/escaped", "/tmp/escaped"] {
            ensure!(fs::symlink_metadata(path).is_err(), "{path} was created");
        }
        Ok(())
    }

    /// Checks that no file left by the guest holds the secret. Does not follow links.
    fn check_guest_files(&self, dir: &Path) -> Result<()> {
        let entries = match fs::read_dir(dir) {
            // A guest can create directories whose paths are too long to open. Files at that depth hold only data that
            // is also found further up.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let meta = entry.metadata()?;
            let path = entry.path();
            if meta.is_dir() {
                self.check_guest_files(&path)?;
            } else if meta.is_file() && meta.len() < 1 << 20 && contains(&read_nofollow(&path), self.secret.as_bytes())
            {
                bail!("{} holds the canary", path.display());
            }
        }
        Ok(())
    }
}

/// Returns the content of a regular file; empty if a symbolic link has replaced the file since it was listed.
fn read_nofollow(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    const NO_FOLLOW: i32 = 0o400_000;
    let mut content = Vec::new();
    if let Ok(mut file) = fs::File::options().read(true).custom_flags(NO_FOLLOW).open(path) {
        let _ = file.read_to_end(&mut content);
    }
    content
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let at = text.find("ESCAPE ").unwrap_or(0);
    text[at..].chars().take(300).collect()
}

#[cfg(unix)]
fn private(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

#[cfg(not(unix))]
fn private(_path: &Path) -> Result<()> {
    Ok(())
}
