//! Table in docs/packages.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};

/// Heading between the page's text and its table.
const BEGIN: &str = "## The most used packages\n";

const HEAD: &str = "
The test `packages` updates this table for the packages that it covers if `CODEBOX_REAL=pypi CODEBOX_WRITE=packages` is set.
Each package is installed alone, at its newest version, and runs a short program of `tests/packages/real`.

| package | tier | why | runs |
|---|---|---|---|
";

/// Result for one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Tier and Python version: "wasm, Python 3.15".
    pub tier: String,
    /// Reason for the tier.
    pub tier_reason: String,
    /// Reason why the program failed, if it did.
    pub failure: Option<String>,
}

impl Row {
    fn runs(&self) -> &str {
        self.failure.as_deref().unwrap_or("yes")
    }

    /// Returns the tier without the Python version.
    fn isolation(&self) -> &str {
        self.tier.split(',').next().unwrap_or_default()
    }
}

/// Page of the table, which one trial accesses at a time.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<()>>);

impl Table {
    /// Compares the page with a row, or writes the row if `CODEBOX_WRITE` is `packages`.
    ///
    /// Dependencies and their versions change with upstream releases and are not compared.
    pub fn compare_or_write(&self, name: &str, row: &Row) -> Result<()> {
        let _guard = self.0.lock().map_err(|_| anyhow::anyhow!("another trial panicked"))?;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/packages.md");
        let text = fs::read_to_string(&page)?;
        let (before, table) = text.split_once(BEGIN).context("docs/packages.md has no table")?;
        let mut rows: BTreeMap<&str, &str> = table.lines().filter_map(|line| Some((name_of(line)?, line))).collect();
        if std::env::var_os("CODEBOX_WRITE").is_some_and(|what| what == "packages") {
            let line = format!("| {name} | {} | {} | {} |", row.tier, row.tier_reason, row.runs());
            rows.insert(name, &line);
            let mut text = format!("{before}{BEGIN}{HEAD}");
            for line in rows.values() {
                writeln!(text, "{line}")?;
            }
            return Ok(fs::write(&page, text)?);
        }
        let line_of_page =
            rows.get(name).with_context(|| format!("docs/packages.md has no row for {name}: {row:?}"))?;
        let cells: Vec<&str> = line_of_page.split('|').map(str::trim).collect();
        let isolation = cells.get(2).and_then(|cell| cell.split(',').next()).unwrap_or_default();
        ensure!(
            isolation == row.isolation() && cells.get(4) == Some(&row.runs()),
            "found {line_of_page:?}, expected {row:?}"
        );
        Ok(())
    }
}

/// Returns the package of a table line.
fn name_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| ")?.split(" |").next()?;
    (name != "package").then_some(name)
}
