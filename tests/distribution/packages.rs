//! The packages, which are made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;

/// Address in the templates, from which nothing is fetched.
const URL: &str = "http://127.0.0.1:9";

/// Returns the program with its runtimes.
pub fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR")))
}

/// All packages of this build.
pub struct Packages;

impl Packages {
    /// Returns their directory, and makes them first.
    pub fn dir() -> Result<&'static Path> {
        static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let made = DIR.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_deref().map_err(|reason| anyhow::anyhow!("no packages: {reason}"))
    }
}

fn make() -> Result<PathBuf> {
    kit().prepare()?;
    let into = kit().temporary().join("packages");
    let programs = kit().binary().parent().context("the directory of the program")?;
    let profile = programs.file_name().context("the name of the profile")?;
    let mut dist = Command::new(programs.join("xtask"));
    dist.arg("dist").arg("--profile").arg(profile).args(["--no-build", "--fast", "--level", "native", "--url", URL]);
    dist.arg("--into").arg(&into).env("CODEBOX_HOME", kit().home());
    output(&mut dist)?;
    // The users of containers have other numbers.
    fs::set_permissions(&into, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(into)
}

/// Returns the package with this end of its name.
pub fn package_named(end: &str) -> Result<PathBuf> {
    let dir = Packages::dir()?;
    let mut paths = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end)));
    found.with_context(|| format!("no {end} in {}", dir.display()))
}

/// Returns the directory of this machine's npm.
pub fn npm_dir() -> Result<PathBuf> {
    let path = output(Command::new("sh").args(["-c", "readlink -f \"$(command -v npm)\""]))?;
    let program = PathBuf::from(path.trim_end());
    // npm/bin/npm-cli.js
    Ok(program.parent().and_then(Path::parent).context("npm is not installed")?.to_owned())
}

/// Runs a command to its end, and returns its output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}
