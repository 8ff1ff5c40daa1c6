//! Guest contract: it resolves, its world is as the host expects, and every item has documentation.

mod docs;

use std::path::Path;

use wit_parser::{PackageId, Resolve, WorldItem, WorldKey};

/// Parses the package as any tool would.
fn resolve_package() -> (Resolve, PackageId) {
    let mut resolve = Resolve::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("wit");
    let (package, _) = resolve.push_dir(folder).expect("the contract resolves");
    (resolve, package)
}

fn names<'a>(resolve: &Resolve, items: impl Iterator<Item = (&'a WorldKey, &'a WorldItem)>) -> Vec<String> {
    items.map(|(key, _)| resolve.name_world_key(key)).collect()
}

#[test]
fn package_is_versioned() {
    let (resolve, package) = resolve_package();
    assert_eq!(resolve.packages[package].name.to_string(), "codebox:guest@0.1.0");
}

#[test]
fn runtime_world_has_expected_imports_and_exports() {
    let (resolve, package) = resolve_package();
    let package = &resolve.packages[package];
    assert_eq!(package.worlds.keys().collect::<Vec<_>>(), ["runtime"]);
    let world = &resolve.worlds[package.worlds["runtime"]];
    let id = |name: &str| format!("codebox:guest/{name}@0.1.0");

    // The interface `limits` is present for its types, which `start` uses.
    let mut imports = names(&resolve, world.imports.iter());
    imports.retain(|name| *name != id("limits"));
    assert_eq!(imports, ["host", "network"].map(id));
    let exports = names(&resolve, world.exports.iter());
    assert_eq!(exports, ["start", "turn", "shutdown"].map(id));
}

#[test]
fn interfaces_have_expected_functions() {
    let (resolve, package) = resolve_package();
    let functions = |interface: &str| -> Vec<&str> {
        let interface = resolve.packages[package].interfaces[interface];
        resolve.interfaces[interface].functions.keys().map(String::as_str).collect()
    };
    assert_eq!(functions("start"), ["start"]);
    assert_eq!(functions("turn"), ["turn"]);
    assert_eq!(functions("shutdown"), ["shutdown"]);
    assert_eq!(functions("host"), ["call", "report-error", "report-missing"]);
    let network = [
        "[static]connection.open",
        "[method]connection.start-tls",
        "[method]connection.send",
        "[method]connection.receive",
        "[method]connection.shut-down",
    ];
    assert_eq!(functions("network"), network);
    assert_eq!(functions("limits"), [""; 0]);
}

#[test]
fn every_item_is_documented() {
    let (resolve, package) = resolve_package();
    let items = docs::items(&resolve, package);
    assert!(items.len() > 50, "only {} items were found", items.len());
    let undocumented: Vec<_> = items.iter().filter(|item| !item.is_documented).map(|item| &item.path).collect();
    assert!(undocumented.is_empty(), "without documentation: {undocumented:?}");
}
