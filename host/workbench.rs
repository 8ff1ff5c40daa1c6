//! Runner for this repository's tests and benchmarks.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use codebox_core::RunnerError;
use codebox_runner::Runner;
use codebox_wasm::WasmBackend;

use crate::app_dirs::AppDirs;
use crate::machine::{Machine, Use};

/// A runner with access to its WebAssembly backend, for tests and benchmarks.
pub struct Workbench {
    runner: Runner,
    wasm: Arc<WasmBackend>,
}

impl Workbench {
    /// Returns the WebAssembly backend.
    pub fn backend(&self) -> &WasmBackend {
        &self.wasm
    }
}

impl Deref for Workbench {
    type Target = Runner;

    fn deref(&self) -> &Runner {
        &self.runner
    }
}

/// Returns a runner below a directory with all runtimes installed, for tests and benchmarks.
pub fn workbench(home: &Path) -> Result<Workbench, RunnerError> {
    let places = AppDirs::below(home);
    let machine = Machine::new(Use::Library, move || Ok(places.clone()));
    let runner = machine.builder().build();
    for runtime in runner.catalog()?.runtimes()? {
        runner.catalog()?.ensure(&runtime.name, runner.progress())?;
    }
    Ok(Workbench { runner, wasm: Arc::clone(machine.wasm()?) })
}
