//! The install script, and templates for package managers that build from an archive.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::{Release, archive};

/// The install script, which can be given an address when it runs.
const INSTALL_SCRIPT: &str = "install.sh";

/// Files that need the address of the archives, relative to the directory of packaging.
const TEMPLATES: [&str; 5] = [
    "homebrew/codebox.rb",
    "nix/package.nix",
    "winget/codebox.yaml",
    "winget/codebox.installer.yaml",
    "winget/codebox.locale.en-US.yaml",
];

/// Returns the description of codebox in one line.
pub(super) fn summary(release: &Release<'_>) -> Result<String> {
    let path = release.packaging.join("summary");
    Ok(fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?.trim().to_owned())
}

/// Writes the install script, and with an address the templates, with version, address and checksums filled in. A checksum of a package that was not made stays open.
pub(super) fn write(release: &Release<'_>, url: Option<&str>, sums: &BTreeMap<String, String>) -> Result<()> {
    let summary = summary(release)?;
    let sum = sums.get(&format!("{}.tar.gz", archive::name(release))).map_or("@SHA256@", String::as_str);
    let addressed = TEMPLATES.iter().filter(|_| url.is_some());
    for template in std::iter::once(&INSTALL_SCRIPT).chain(addressed) {
        let path = release.packaging.join(template);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let text = text.replace("@VERSION@", release.version).replace("@SUMMARY@", &summary);
        let text = text.replace("@URL@", url.unwrap_or_default()).replace("@SHA256@", sum);
        ensure!(sum.starts_with('@') || !text.contains("@SHA256@"), "{template} has an open checksum");
        let to = release.into.join(template);
        fs::create_dir_all(to.parent().context("a file in a directory")?)?;
        fs::write(&to, text)?;
    }
    Ok(())
}
