//! Node functions that the JavaScript runtime lacks.
//!
//! `absent::exports_every_node_function` compares the runtime with `node-22-functions.json`, the functions and
//! classes of Node 22's modules. `absent::MODULE` uses everything that the prelude's table lists for a module: each use
//! fails with the same error, and the report names the function and gives a hint on how to get it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::Value;

use crate::{Shared, completion, unavailable};

/// Check of a trial.
type Case = Box<dyn Fn(&Kit) -> Result<()> + Send>;

/// Table of the prelude.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    modules: BTreeMap<String, Vec<String>>,
    globals: Vec<String>,
    subtle: Vec<String>,
    hashes: Vec<String>,
}

const TABLE: &str = include_str!("../../guest-runtimes/javascript/prelude/src/absent.json");
const NODE: &str = include_str!("node-22-functions.json");

/// Functions without a name in the runtime, each with the reason.
const MISSING_FUNCTIONS: [(&str, &str); 2] = [
    ("assert/strict.Assert", "it is a second way to assert.Assert, which is in the table"),
    ("process.assert", "Node does not document it, and later versions do not have it"),
];

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let table: Table = serde_json::from_str(TABLE).context("read absent.json")?;
    let mut trials = Vec::new();
    let mut add = |name: &str, case: Case| {
        let (kit, ready) = (kit.clone(), ready.clone());
        trials.push(Trial::ignorable_test(format!("absent::{name}"), move || match &**ready {
            Ok(()) => completion(case(&kit)),
            Err(reason) => unavailable("wasm", reason),
        }));
    };
    add("exports_every_node_function", Box::new(exports_every_node_function));
    for (module, names) in &table.modules {
        let (module, names) = (module.clone(), names.clone());
        add(&module.clone(), Box::new(move |kit| check_module_functions(kit, &module, &names)));
    }
    for global in table.globals {
        add(
            &format!("global_{global}"),
            Box::new(move |kit| check_missing_features(kit, &format!("new {global}()"), std::slice::from_ref(&global))),
        );
    }
    add("subtle", Box::new(move |kit| subtle(kit, &table.subtle)));
    add("hashes", Box::new(move |kit| hashes(kit, &table.hashes)));
    add(
        "reports_fs_watch",
        Box::new(|kit| check_missing_features(kit, "require('fs').watch('.')", &["fs.watch".to_owned()])),
    );
    add("names_missing_feature_on_stderr", Box::new(check_cli_message));
    Ok(trials)
}

/// Prints the functions of Node that the runtime lacks.
fn exports_every_node_function(kit: &Kit) -> Result<()> {
    let program = format!(
        "const node = {NODE};\nconst absent = [];\nfor (const module in node) {{\n  const exports = require(module);\n  for (const name of node[module]) if (typeof exports[name] !== 'function') absent.push(module + '.' + name);\n}}\nconsole.log(absent.join(' '));"
    );
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.cjs"), program)?;
    let result = kit.codebox().args(["run", "--isolation", "wasm", "main.cjs"]).folder(folder.path()).run()?;
    ensure!(result.code == Some(0), "{}", result.stderr_text());
    let unavailable: Vec<&str> = MISSING_FUNCTIONS.iter().map(|(name, _)| *name).collect();
    ensure!(
        result.stdout_text().trim() == unavailable.join(" "),
        "missing and not in the table: {}",
        result.stdout_text()
    );
    Ok(())
}

/// Calls or constructs each function and lets the last failure end the program.
fn check_module_functions(kit: &Kit, module: &str, names: &[String]) -> Result<()> {
    let list = serde_json::to_string(names)?;
    let program = format!(
        "const library = require('node:{module}');\nfor (const name of {list}) {{\n  for (const use of [() => library[name](), () => new library[name]()]) {{\n    try {{ use(); console.log(name, 'works'); }} catch (error) {{ if (error.code !== 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM') console.log(name, error); }}\n  }}\n}}\nlibrary['{}']();",
        names.last().context("a module without names is in the table")?
    );
    let qualified_names: Vec<String> = names.iter().map(|name| format!("{module}.{name}")).collect();
    check_missing_features(kit, &program, &qualified_names)
}

fn subtle(kit: &Kit, names: &[String]) -> Result<()> {
    let program = format!(
        "(async () => {{ for (const name of {}) await crypto.subtle[name]().catch((error) => {{ if (error.name !== 'NotSupportedError') console.log(error); }}); throw new Error('end'); }})()",
        serde_json::to_string(names)?
    );
    let qualified_names: Vec<String> = names.iter().map(|name| format!("crypto.subtle.{name}")).collect();
    check_missing_features(kit, &program, &qualified_names)
}

fn hashes(kit: &Kit, names: &[String]) -> Result<()> {
    let program = format!(
        "const {{ createHash }} = require('crypto');\nfor (const name of {}) {{ try {{ createHash(name); console.log(name, 'works'); }} catch {{}} }}\nthrow new Error('end');",
        serde_json::to_string(names)?
    );
    let qualified_names: Vec<String> = names.iter().map(|name| format!("hash {name}")).collect();
    check_missing_features(kit, &program, &qualified_names)
}

/// Runs a program that prints nothing and fails, and compares the report's list of missing features.
fn check_missing_features(kit: &Kit, program: &str, missing: &[String]) -> Result<()> {
    let result = kit.run_json().args(["--lang", "js", "-c"]).arg(program).run()?;
    let report = result.report()?;
    ensure!(report.exit_code() == Some(1), "{}\n{}", report.outcome(), report.stderr());
    ensure!(report.stdout().is_empty(), "{}", report.stdout());
    let expected: Vec<String> = missing.iter().map(|name| format!("Node's {name}")).collect();
    ensure!(report.missing() == expected, "{:?} is missing, and not {expected:?}", report.missing());
    for entry in report.at("/missing").as_array().into_iter().flatten() {
        ensure!(entry["hint"].as_str().is_some_and(|hint| hint.contains("container")), "{entry}");
    }
    ensure!(*report.at("/needs_escalation/reason") != Value::Null, "the message does not suggest a container");
    Ok(())
}

fn check_cli_message(kit: &Kit) -> Result<()> {
    let program = "const crypto = require('crypto'); const name = 'createSign'; crypto[name]('SHA256')";
    let result = kit.codebox().args(["run", "--isolation", "wasm", "--lang", "js", "-c", program]).run()?;
    let text = result.stderr_text();
    ensure!(
        text.contains("codebox: the program needs Node's crypto.createSign, which WebAssembly does not support"),
        "{text}"
    );
    Ok(())
}
