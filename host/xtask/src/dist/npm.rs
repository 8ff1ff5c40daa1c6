//! Packages of npm: one with the files of this system, and one that starts the program in the package of the system.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::{TarWriter, append_tree, create, gzip};
use super::{Release, templates};

/// Directory of all files in a package.
const PREFIX: &str = "package/";

/// Systems that have a package, as in `process.arch` of Node.
const CPUS: [&str; 2] = ["x64", "arm64"];

/// Writes both packages.
pub(super) fn write(release: &Release<'_>) -> Result<()> {
    let cpu = release.target.npm_cpu;
    let about = json!({
        "name": system_package(cpu),
        "version": release.version,
        "description": format!("codebox for Linux on {cpu}"),
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [cpu],
        "preferUnplugged": true,
    });
    write_package(release, &format!("codebox-linux-{cpu}"), &about, |archive| append_tree(archive, release, PREFIX))?;

    let systems = CPUS.map(|cpu| (system_package(cpu), json!(release.version)));
    let about = json!({
        "name": "codebox",
        "version": release.version,
        "description": templates::summary(release)?,
        "license": "Apache-2.0",
        "bin": { "codebox": "bin/codebox.js" },
        "engines": { "node": ">=18" },
        "optionalDependencies": Value::Object(systems.into_iter().collect()),
    });
    let starter = fs::read(release.packaging.join("npm/codebox.js"))?;
    write_package(release, "codebox", &about, |archive| {
        archive.bytes(&format!("{PREFIX}bin/codebox.js"), 0o755, &starter)
    })
}

fn system_package(cpu: &str) -> String {
    format!("@codebox/linux-{cpu}")
}

/// Writes a package with its description, the README and the licence.
fn write_package(
    release: &Release<'_>,
    name: &str,
    about: &Value,
    add_files: impl FnOnce(&mut TarWriter<Output>) -> Result<()>,
) -> Result<()> {
    let output = gzip(create(release, &format!("{name}-{}.npm.tgz", release.version))?, release);
    let mut archive = TarWriter::new(output, release.epoch);
    archive.bytes(&format!("{PREFIX}package.json"), 0o644, &serde_json::to_vec_pretty(about)?)?;
    for document in ["README.md", "LICENSE"] {
        archive.bytes(&format!("{PREFIX}{document}"), 0o644, &release.tree.document(document)?)?;
    }
    add_files(&mut archive)?;
    archive.finish()?.finish()?;
    Ok(())
}

type Output = flate2::write::GzEncoder<fs::File>;
