//! The compiler, and its threads.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::WasmError;

/// Compiles a module.
#[cfg(feature = "compiler")]
pub(crate) fn precompile_module(engine: &wasmtime::Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_module(wasm)
}

/// Compiles a component.
#[cfg(feature = "compiler")]
pub(crate) fn precompile_component(engine: &wasmtime::Engine, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    engine.precompile_component(wasm)
}

/// Compiles a module into memory.
#[cfg(feature = "compiler")]
pub(crate) fn compile_module(engine: &wasmtime::Engine, wasm: &[u8]) -> wasmtime::Result<wasmtime::Module> {
    wasmtime::Module::from_binary(engine, wasm)
}

/// Compiles a component into memory.
#[cfg(feature = "compiler")]
pub(crate) fn compile_component(
    engine: &wasmtime::Engine,
    wasm: &[u8],
) -> wasmtime::Result<wasmtime::component::Component> {
    wasmtime::component::Component::from_binary(engine, wasm)
}

/// Fails: this program is built without the compiler.
#[cfg(not(feature = "compiler"))]
pub(crate) fn compiled<T>(_: &wasmtime::Engine, _: &[u8]) -> wasmtime::Result<T> {
    Err(wasmtime::Error::msg("this program is built without the compiler; use one that has the feature `compiler`"))
}

#[cfg(not(feature = "compiler"))]
pub(crate) use compiled as compile_component;
#[cfg(not(feature = "compiler"))]
pub(crate) use compiled as compile_module;
#[cfg(not(feature = "compiler"))]
pub(crate) use compiled as precompile_component;
#[cfg(not(feature = "compiler"))]
pub(crate) use compiled as precompile_module;

/// Runs a compilation on threads that have ended when it returns. A process that confines itself afterwards must have no
/// other threads, and those of a global pool never end.
pub(crate) fn on_own_threads<T: Send>(compile: impl FnOnce() -> T + Send) -> Result<T, WasmError> {
    let threads = Mutex::new(Vec::new());
    let spawn = |thread: rayon::ThreadBuilder| {
        let spawned = thread::Builder::new().name("codebox-compiler".to_owned()).spawn(|| thread.run())?;
        threads.lock().unwrap_or_else(PoisonError::into_inner).push(spawned);
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().spawn_handler(spawn).build();
    let pool = pool.map_err(|error| {
        WasmError::engine("start the threads of the compiler")(wasmtime::Error::msg(error.to_string()))
    })?;
    let compiled = pool.install(compile);
    drop(pool);
    for thread in threads.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // A panic of the compiler has already been passed on.
        let _ = thread.join();
    }
    Ok(compiled)
}
