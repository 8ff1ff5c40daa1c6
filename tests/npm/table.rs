//! Table in docs/packages-npm.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use codebox_packages::NpmEnvironment;

const HEAD: &str = "\
# Packages of npm

The most used packages of npm that are pure JavaScript. Each has a program in `tests/fixtures/npm` that must print the same in
WebAssembly as in Node. The test `npm` writes this page if `CODEBOX_WRITE=packages-npm` is set and all its trials run.

| package | packages with it | kind | tier | runs as in Node |
|---|---|---|---|---|
";

/// Result for one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    dependencies: usize,
    kind: &'static str,
    failure: Option<String>,
}

impl Row {
    pub fn of(package: &str, environment: &NpmEnvironment, failure: Option<String>) -> Self {
        let manifest = fs::read_to_string(environment.dir.join(package).join("package.json")).unwrap_or_default();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap_or_default();
        let is_module = manifest["type"] == "module";
        let text = manifest["exports"].to_string();
        let kind = match (is_module, text.contains("\"import\""), text.contains("\"require\"")) {
            (_, true, true) => "both",
            (true, ..) => "ESM",
            (false, true, false) => "both",
            (false, false, _) => "CommonJS",
        };
        let failure = failure.map(|message| message.lines().next().unwrap_or_default().to_owned());
        Self { dependencies: environment.tree.packages.len(), kind, failure }
    }
}

/// Table, complete once every trial has added its row.
#[derive(Clone)]
pub struct Table {
    pub rows: Arc<Mutex<BTreeMap<String, Row>>>,
    pub total: usize,
}

impl Table {
    /// Compares the page with the rows once they are complete, or writes the page.
    ///
    /// The number of dependencies changes with upstream releases and is not compared.
    pub fn compare_or_write(&self) -> Result<()> {
        let rows = self.rows.lock().map_err(|_| anyhow::anyhow!("another trial panicked"))?;
        if rows.len() < self.total {
            return Ok(());
        }
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/packages-npm.md");
        if std::env::var_os("CODEBOX_WRITE").is_some_and(|what| what == "packages-npm") {
            let mut text = HEAD.to_owned();
            for (name, Row { dependencies, kind, failure }) in rows.iter() {
                let runs = failure.as_deref().unwrap_or("yes");
                writeln!(text, "| {name} | {dependencies} | {kind} | wasm | {runs} |")?;
            }
            fs::write(&page, text)?;
            return Ok(());
        }
        let text = fs::read_to_string(&page)?;
        for (name, row) in rows.iter() {
            let line_of_page = text.lines().find(|line| line.starts_with(&format!("| {name} |")));
            let runs = row.failure.as_deref().unwrap_or("yes");
            ensure!(
                line_of_page.is_some_and(|line| line.ends_with(&format!("| {runs} |"))),
                "{name}: found {line_of_page:?}, expected {runs:?}"
            );
        }
        Ok(())
    }
}
