//! Installation of a runtime that is started in async code, as the lock of a script's packages does.

use std::sync::Arc;

use codebox_core::{Language, Preparation, Silent};
use codebox_runtimes::RuntimeCatalog;
use codebox_service::catalog::Catalog as _;
use codebox_wasm::{Engine, StoreDirs};

#[test]
fn prepares_runtime() {
    let home = tempfile::tempdir().expect("a directory");
    let dirs = StoreDirs { data: home.path().join("data"), cache: home.path().join("cache"), installation: None };
    let engine = Engine::new().expect("an engine");
    let catalog = RuntimeCatalog::open(dirs, Arc::new(|_: &str| None), engine).expect("the catalog is empty");
    let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    let required = Preparation::Image("javascript");
    let prepared = executor.block_on(async { catalog.ensure_language(&Language::JavaScript, required, &Silent) });
    assert_eq!(prepared.expect("it is built in").name, "javascript");
    assert!(catalog.is_ready(&Language::JavaScript, required));
}
