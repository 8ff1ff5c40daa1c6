//! A program that is a module.

use codebox_core::Job;
use wasmtime::{InstancePre, Store};

use super::code::START;
use super::default_mount;
use crate::error::WasmError;
use crate::guest::{Guest, GuestResult};
use crate::interrupt::{Ticker, TickerGuard};
use crate::launch::{Setup, program_guest};
use crate::run::OnceGuest;

/// A module's guest and its store.
pub(crate) struct ModuleProgram {
    store: Store<Guest>,
    pre: InstancePre<Guest>,
    _running: TickerGuard,
}

impl ModuleProgram {
    /// Creates the store for one job. No wasm code runs yet.
    pub(crate) fn new(
        pre: &InstancePre<Guest>,
        ticker: &Ticker,
        setup: Setup<'_>,
        job: &Job,
    ) -> Result<Self, WasmError> {
        let engine = pre.module().engine();
        let running = ticker.run(Some(engine)).map_err(WasmError::clock)?;
        let default = Some(default_mount(setup.mounts, &job.work_dir)?);
        let mut store = Store::new(engine, program_guest(setup, job, default)?);
        store.limiter(|guest| &mut guest.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        Ok(Self { store, pre: pre.clone(), _running: running })
    }
}

impl OnceGuest for ModuleProgram {
    async fn run(&mut self, _job: &Job) -> wasmtime::Result<i32> {
        let instance = self.pre.instantiate_async(&mut self.store).await?;
        let start = instance.get_typed_func::<(), ()>(&mut self.store, START)?;
        start.call_async(&mut self.store, ()).await.map(|()| 0)
    }

    async fn finish(&mut self) {
        self.store.data_mut().delivery.finish().await;
    }

    fn end(mut self) -> GuestResult {
        self.store.data_mut().take_result()
    }
}
