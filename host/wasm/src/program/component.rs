//! A program that is a component.

use codebox_core::Job;
use wasmtime_wasi::p2::bindings::CommandPre;

use super::default_mount;
use crate::component::{ComponentStore, State};
use crate::error::WasmError;
use crate::guest::GuestResult;
use crate::interrupt::Ticker;
use crate::launch::Setup;
use crate::run::OnceGuest;

/// A component's guest and its store.
pub(crate) struct ComponentProgram {
    store: ComponentStore,
    pre: CommandPre<State>,
}

impl ComponentProgram {
    /// Creates the store for one job. No wasm code runs yet.
    pub(crate) fn new(
        pre: &CommandPre<State>,
        ticker: &Ticker,
        setup: Setup<'_>,
        job: &Job,
    ) -> Result<Self, WasmError> {
        let default = Some(default_mount(setup.mounts, &job.work_dir)?);
        Ok(Self { store: ComponentStore::new(pre.engine(), ticker, setup, job, default)?, pre: pre.clone() })
    }
}

impl OnceGuest for ComponentProgram {
    async fn run(&mut self, _job: &Job) -> wasmtime::Result<i32> {
        let store = self.store.inner();
        let command = self.pre.instantiate_async(&mut *store).await?;
        Ok(match command.wasi_cli_run().call_run(store).await? {
            Ok(()) => 0,
            Err(()) => 1,
        })
    }

    async fn finish(&mut self) {
        self.store.finish().await;
    }

    fn end(self) -> GuestResult {
        self.store.end()
    }
}
