//! The functions that a guest imports: those of `wasmtime-wasi`, some of them shadowed.
//!
//! A shadowing function selects the mount, the quota or the stream and then delegates to the function that it shadows.
//! No shadowing function accesses the host's files itself.

use wasmtime::Linker;
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p1;

use crate::engine::Engine;
use crate::error::WasmError;
use crate::guest::{Guest, channel, descriptors, parts, paths};

/// The import module of the functions of WASI preview 1.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Returns a linker with the imports of every code image.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Guest>, WasmError> {
    let mut linker = Linker::new(engine.inner());
    link(&mut linker).map_err(WasmError::engine("define the guest's imports"))?;
    Ok(linker)
}

/// Returns a linker with the functions of WASI alone.
pub(crate) fn wasi_linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    link_wasi(&mut linker)?;
    Ok(linker)
}

fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    link_wasi(linker)?;
    channel::link(linker)?;
    parts::link(linker)
}

fn link_wasi(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |guest: &mut Guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    paths::link(linker)?;
    descriptors::link(linker)?;
    link_proc_exit(linker)
}

/// Ends a guest with any exit status: `wasmtime-wasi` supports only those below 126.
fn link_proc_exit(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "proc_exit", |status: i32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::from(I32Exit(status & 0xff)))
    })?;
    Ok(())
}
