//! Checksums of the packages.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// File of the checksums, in the form that `sha256sum --check` reads.
pub(super) const FILE: &str = "SHA256SUMS";

/// Writes the checksums of all packages, and returns them by file name.
pub(super) fn write(dir: &Path) -> Result<BTreeMap<String, String>> {
    let names = sizes(dir)?.into_iter().map(|(name, _)| name).filter(|name| name != FILE);
    let sums = names.map(|name| Ok((name.clone(), sha256(&dir.join(&name))?)));
    let sums = sums.collect::<Result<BTreeMap<_, _>>>()?;
    let lines: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    fs::write(dir.join(FILE), lines)?;
    Ok(sums)
}

/// Returns the names and sizes of the packages, in megabytes.
pub(super) fn sizes(dir: &Path) -> Result<Vec<(String, f64)>> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_file() {
            sizes.push((entry.file_name().to_string_lossy().into_owned(), meta.len() as f64 / 1e6));
        }
    }
    sizes.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(sizes)
}

/// Returns the sha256 of a file, in hexadecimal.
fn sha256(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    io::copy(&mut file, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
