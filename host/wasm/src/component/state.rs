//! The state of a component's store, which belongs to exactly one guest.

use std::sync::{Arc, Mutex};

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::p2;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::component::bind::codebox::guest::{host, network};
use crate::component::descriptors::Descriptors;
use crate::component::stdio::Stdio;
use crate::guest::{Channel, MemoryLimiter, Missing, Net, Quota, UncaughtException};

/// The host's state for one guest.
pub(crate) struct State {
    pub wasi: WasiCtx,
    pub table: ResourceTable,
    pub limiter: MemoryLimiter,
    /// The quota, which the streams to the guest's files share.
    pub quota: Arc<Mutex<Quota>>,
    pub stdio: Stdio,
    /// The guest's open directories and files.
    pub descriptors: Descriptors,
    /// The guest's messages about its job.
    pub channel: Channel,
    /// The network, if any of it is granted.
    pub net: Option<Net>,
}

/// The parts of the state that the file system functions need.
pub(crate) struct Files<'a> {
    pub inner: WasiFilesystemCtxView<'a>,
    pub descriptors: &'a mut Descriptors,
    pub quota: &'a Arc<Mutex<Quota>>,
    pub stdio: &'a Stdio,
}

/// Marker type that makes [`Files`] the context of the file system functions.
struct GuestFiles;

impl HasData for GuestFiles {
    type Data<'a> = Files<'a>;
}

impl State {
    fn files(&mut self) -> Files<'_> {
        let Self { wasi, table, quota, descriptors, stdio, .. } = self;
        Files { inner: WasiFilesystemCtxView { ctx: wasi.filesystem(), table }, descriptors, quota, stdio }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// Defines the imports that the contract offers.
///
/// Sockets are defined too, as part of WASI, but a component that imports them is refused before it is linked.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    types::add_to_linker::<State, GuestFiles>(linker, State::files)?;
    preopens::add_to_linker::<State, GuestFiles>(linker, State::files)?;
    host::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    network::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    Ok(())
}

impl host::Host for State {
    fn call(&mut self, _tool: String, _input: String) -> Result<String, host::CallError> {
        // No job is granted tools yet.
        Err(host::CallError::NoHost)
    }

    fn report_error(&mut self, error: host::UncaughtError) {
        let host::UncaughtError { name, value, traceback, line } = error;
        self.channel.record_error(UncaughtException { name, value, traceback, line, frames: Vec::new() });
    }

    fn report_missing(&mut self, feature: host::MissingFeature) {
        let what = match feature {
            host::MissingFeature::Threads => "threads".to_owned(),
            host::MissingFeature::Processes => "processes".to_owned(),
            host::MissingFeature::Sockets => "sockets".to_owned(),
            host::MissingFeature::NativeModule(name) => format!("module:{name}"),
        };
        self.channel.record_missing(Missing { what });
    }
}
