//! Virtual machines for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{BASE_IMAGE, Codebox, Input, engine_output};

/// Maximum time of a command that starts a machine or loads an image into it.
const DEADLINE: Duration = Duration::from_secs(600);

/// Returns the directory of the image of virtual machines that `cargo xtask vm-image` makes for the package at `manifest`, or of the one that
/// `CODEBOX_VM_IMAGE` names.
#[must_use]
pub fn machine_image(manifest: &str) -> PathBuf {
    let default = || Path::new(manifest).join("target/vm-image");
    std::env::var_os("CODEBOX_VM_IMAGE").map_or_else(default, PathBuf::from)
}

/// Starts the virtual machine of a home, with the image of containers for tests. Returns what the start has printed.
///
/// # Errors
/// Fails with the messages of the machine if it does not start, or if Podman of this machine does not have the image.
pub fn start_machine(codebox: &dyn Fn() -> Codebox, temporary: &Path) -> Result<String> {
    let up = codebox().args(["vm", "up"]).deadline(DEADLINE).run()?;
    let log = || codebox().args(["vm", "logs"]).run().map(|logs| logs.stdout_text()).unwrap_or_default();
    ensure!(up.code == Some(0), "{} {}", up.stderr_text(), log());
    let has =
        codebox().args(["vm", "shell", "--", "podman", "image", "exists", BASE_IMAGE]).deadline(DEADLINE).run()?;
    if has.code != Some(0) {
        let archive = tempfile::Builder::new().suffix(".tar").tempfile_in(temporary)?.into_temp_path();
        // Podman does not write to a file that exists.
        std::fs::remove_file(&archive)?;
        engine_output("podman", &["save", "-o", archive.to_str().context("a path in UTF-8")?, BASE_IMAGE])?;
        let input = Input::Bytes(std::fs::read(&archive)?);
        let load = codebox().args(["vm", "shell", "--", "podman", "load"]).input(input).deadline(DEADLINE).run()?;
        ensure!(load.code == Some(0), "{}", load.stderr_text());
    }
    Ok(up.stderr_text())
}
