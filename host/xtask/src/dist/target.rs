//! Names of a system in the package managers.

use std::env::consts::{ARCH, OS};

use anyhow::{Result, bail};

/// A system for which packages are made.
pub(super) struct Target {
    /// The name in archives.
    pub name: String,
    /// The architecture in packages of npm, as in `process.arch` of Node.
    pub npm_cpu: &'static str,
    /// The architecture of Debian.
    pub debian: &'static str,
    /// The architecture in tags of wheels.
    pub wheel: &'static str,
}

impl Target {
    /// Returns this machine's system.
    ///
    /// # Errors
    /// Fails on other systems than Linux, for which no packages are made yet.
    pub(super) fn of_this_machine() -> Result<Self> {
        let (npm_cpu, debian) = match (OS, ARCH) {
            ("linux", "x86_64") => ("x64", "amd64"),
            ("linux", "aarch64") => ("arm64", "arm64"),
            _ => bail!("packages are made on Linux, for x86_64 and aarch64; this is {OS} on {ARCH}"),
        };
        Ok(Self { name: format!("{ARCH}-linux"), npm_cpu, debian, wheel: ARCH })
    }

    /// Returns the levels of processors for which the runtimes are compiled.
    pub(super) fn levels(&self) -> Vec<String> {
        let levels: &[&str] = if self.debian == "amd64" { &["x86-64-v2", "x86-64-v3"] } else { &["aarch64"] };
        levels.iter().map(|level| (*level).to_owned()).collect()
    }
}
