//! Texts of the licences of everything in an installation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::sbom::Component;

/// Beginnings of the names of files with licences, in lower case.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

/// Returns the licence of each component, and every text once, with the components that have it.
pub(super) fn text(components: &[Component]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from(
        "Components of codebox with their licences, followed by the texts. The programs are linked with the GNU C library\n\
         (LGPL-2.1-or-later). The licences of Python and of its packages are also in lib/codebox/runtimes.\n\n",
    );
    for component in components {
        let name = format!("{} {}", component.name, component.version);
        writeln!(out, "{name}: {}", component.licence.as_deref().unwrap_or("see its package"))?;
        for text in component.sources.as_deref().map(licence_texts).transpose()?.unwrap_or_default() {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        write!(out, "\n{}\n{}\n\n{}\n", "=".repeat(100), names.join(", "), text.trim_end())?;
    }
    Ok(out)
}

/// Returns the texts of the licences in a directory of sources.
fn licence_texts(dir: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && entry.metadata()?.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
