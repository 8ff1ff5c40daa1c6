//! Texts of the licences of everything in an installation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::sbom::Component;

/// Beginnings of the names of files with licences, in lower case.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

/// The licence of the C library.
const LGPL: &str = "/usr/share/common-licenses/LGPL-2.1";

/// Returns the licence of each component, and every text once, with the components that have it. `javascript` is the directory
/// with the licences of the JavaScript runtime.
pub(super) fn text(components: &[Component], javascript: &Path) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from(
        "Components of codebox with their licences, followed by the texts. The programs are linked statically with the GNU C\n\
         library; they can be linked with another version of it by building codebox from its sources. The licences of Python and\n\
         of its packages are also in lib/codebox/runtimes.\n\n",
    );
    let lesser = fs::read_to_string(LGPL).with_context(|| format!("read {LGPL}; use Debian or Ubuntu"))?;
    texts.insert(lesser, vec!["glibc".to_owned()]);
    for text in texts_in(javascript, |_| true)? {
        texts.entry(text).or_default().push("javascript".to_owned());
    }
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
    texts_in(dir, |name| NAMES.iter().any(|start| name.starts_with(start)))
}

/// Returns the texts of the files in a directory whose names, in lower case, are accepted.
fn texts_in(dir: &Path, accepts: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if accepts(&name) && entry.metadata()?.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
