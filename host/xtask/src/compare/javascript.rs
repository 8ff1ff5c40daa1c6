//! Smallest JavaScript program and a small TypeScript program, from process start to process end.

use std::fs;

use anyhow::{Context, Result};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};

const SMALLEST: &str = "whole process, `codebox run -c 'console.log(1)' --lang js` vs `node -e 'console.log(1)'`";
const PROGRAM: &str = "console.log(1)";

const TYPED: &str = "whole process, a .ts file of ten lines vs `node` running it without its types";
const TYPESCRIPT: &str = "\
interface Item { name: string; price: number; tags?: string[] }
type Priced<T extends Item> = T & { total: number };
enum Size { Small = 1, Large = 3 }
class Basket<T extends Item> {
  constructor(private readonly items: T[], public size: Size = Size.Large) {}
  priced(): Priced<T>[] { return this.items.map((item) => ({ ...item, total: item.price * this.size })); }
}
const basket = new Basket<Item>([{ name: 'pear', price: 2 }, { name: 'plum', price: 5, tags: ['ripe'] }]);
const sum: number = basket.priced().reduce((total: number, item) => total + item.total, 0);
console.log(sum);
";
const STRIPPED: &str = "\
var Size;
(function (Size) { Size[Size['Small'] = 1] = 'Small'; Size[Size['Large'] = 3] = 'Large'; })(Size || (Size = {}));
class Basket {
  constructor(items, size = Size.Large) { this.items = items; this.size = size; }
  priced() { return this.items.map((item) => ({ ...item, total: item.price * this.size })); }
}
const basket = new Basket([{ name: 'pear', price: 2 }, { name: 'plum', price: 5, tags: ['ripe'] }]);
const sum = basket.priced().reduce((total, item) => total + item.total, 0);
console.log(sum);
";

/// Compares the smallest programs; the row gives the reason if Node is missing.
///
/// # Errors
/// Fails if an output is wrong.
pub fn smallest(inputs: &BenchInputs) -> Result<Row> {
    let row = |measurement| Row { what: SMALLEST, max_ratio: Some(0.12), measurement };
    let node = match &inputs.node {
        Ok(node) => node,
        Err(why) => return Ok(row(Err(why.clone()))),
    };
    let mut codebox = inputs.codebox();
    codebox.args(["-c", PROGRAM, "--lang", "js"]);
    let mut native = node.command();
    native.args(["-e", PROGRAM]);
    // Node takes a good part of a second for every ten pairs.
    let runs = inputs.runs.short / 2;
    let medians = run_alternately(
        Subject { command: codebox, expected_output: "1\n" },
        Subject { command: native, expected_output: "1\n" },
        runs,
    )?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}

/// Compares a typed program with the same program without types; the row gives the reason if Node is missing.
///
/// # Errors
/// Fails if an output is wrong.
pub fn typed(inputs: &BenchInputs) -> Result<Row> {
    let row = |measurement| Row { what: TYPED, max_ratio: None, measurement };
    let node = match &inputs.node {
        Ok(node) => node,
        Err(why) => return Ok(row(Err(why.clone()))),
    };
    let folder = tempfile::tempdir().context("make a folder for the programs")?;
    let (typescript, stripped) = (folder.path().join("basket.ts"), folder.path().join("basket.js"));
    fs::write(&typescript, TYPESCRIPT).context("write the program")?;
    fs::write(&stripped, STRIPPED).context("write the program without types")?;
    let mut codebox = inputs.codebox();
    codebox.arg(&typescript);
    let mut native = node.command();
    native.arg(&stripped);
    let runs = inputs.runs.short / 2;
    let medians = run_alternately(
        Subject { command: codebox, expected_output: "21\n" },
        Subject { command: native, expected_output: "21\n" },
        runs,
    )?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}
