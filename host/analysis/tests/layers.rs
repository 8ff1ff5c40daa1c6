//! Dependency check: only the analyzer program depends on the parsers.

use std::process::Command;

fn dependencies(package: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    String::from_utf8_lossy(&tree.stdout).into_owned()
}

#[test]
fn host_depends_on_no_parser() {
    let host = dependencies("codebox");
    assert!(host.contains("codebox-wasm ") && host.contains("codebox-analysis "), "{host}");
    for parser in ["oxc", "swc", "ruff_python", "codebox-typescript", "codebox-analyzer"] {
        let found = host.lines().find(|line| line.starts_with(parser));
        assert_eq!(found, None);
    }
    let analyzer = dependencies("codebox-analyzer");
    assert!(analyzer.contains("ruff_python_parser ") && analyzer.contains("codebox-typescript "), "{analyzer}");
}
