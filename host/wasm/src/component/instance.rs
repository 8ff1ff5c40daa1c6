//! Instantiates a component and runs a job in it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{Access, Job, MissedFiles};
use codebox_streams::Delivery;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use crate::component::ComponentCode;
use crate::component::bind::Runtime;
use crate::component::descriptors::{Descriptors, perms};
use crate::component::job::contract_job;
use crate::component::state::State;
use crate::component::stdio::Stdio;
use crate::error::WasmError;
use crate::guest::{GuestResult, JobStreams, MemoryLimiter};
use crate::interrupt::{Ticker, TickerGuard};
use crate::launch::{EXTRA_TABLE_CAPACITY, MAX_RANDOM, Setup};
use crate::run::OnceGuest;

/// Store of one guest of a component.
pub(crate) struct ComponentStore {
    store: Store<State>,
    _running: TickerGuard,
}

impl ComponentStore {
    /// Creates the store for one job. `default` is the mount to which relative paths lead, if it is not the root.
    pub(crate) fn new(
        engine: &wasmtime::Engine,
        ticker: &Ticker,
        setup: Setup<'_>,
        job: &Job,
        default: Option<usize>,
    ) -> Result<Self, WasmError> {
        let running = ticker.run(Some(engine)).map_err(WasmError::clock)?;
        let mut store = Store::new(engine, state(setup, job, default)?);
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        Ok(Self { store, _running: running })
    }

    pub(crate) fn inner(&mut self) -> &mut Store<State> {
        &mut self.store
    }

    /// Waits until all of the guest's output is delivered.
    pub(crate) async fn finish(&mut self) {
        let stdio = self.store.data().stdio.clone();
        stdio.finish().await;
    }

    /// Consumes the guest and returns its messages, counters and output.
    pub(crate) fn end(self) -> GuestResult {
        let State { channel, limiter, quota, stdio, net, .. } = self.store.into_data();
        let quota = std::mem::take(&mut *quota.lock().unwrap_or_else(PoisonError::into_inner));
        let network = net.map(|net| net.used()).unwrap_or_default();
        GuestResult { channel, limiter, quota, missed: MissedFiles::default(), captured: stdio.captured(), network }
    }
}

/// A runtime's guest and its store.
pub(crate) struct GuestInstance {
    store: ComponentStore,
    code: ComponentCode,
}

impl GuestInstance {
    /// Creates the store for one job. No wasm code runs yet.
    pub(crate) fn new(code: &ComponentCode, setup: Setup<'_>, job: &Job) -> Result<Self, WasmError> {
        let store = ComponentStore::new(code.pre.engine(), &code.ticker, setup, job, None)?;
        Ok(Self { store, code: code.clone() })
    }
}

impl OnceGuest for GuestInstance {
    async fn run(&mut self, job: &Job) -> wasmtime::Result<i32> {
        let contract_job =
            contract_job(job).ok_or_else(|| wasmtime::Error::msg("this tier runs programs, not commands"))?;
        let store = self.store.inner();
        let runtime: Runtime = self.code.pre.instantiate_async(&mut *store).await?;
        let status = runtime.codebox_guest_start().call_start(&mut *store, &contract_job).await?;
        let last = runtime.codebox_guest_shutdown().call_shutdown(store).await?;
        // For a failed program, the status of the shutdown adds no information.
        Ok(if status == 0 { last } else { status } & 0xff)
    }

    async fn finish(&mut self) {
        self.store.finish().await;
    }

    fn end(self) -> GuestResult {
        self.store.end()
    }
}

fn state(setup: Setup<'_>, job: &Job, default: Option<usize>) -> Result<State, WasmError> {
    let Setup { root, mounts, memory, quota, streams, net, code: _, witness: _, seed: _ } = setup;
    let JobStreams { stdin, stdout, stderr, sinks, is_terminal, channel } = streams;
    let stdio = Stdio::new(stdin, [stdout, stderr], Delivery::new(sinks), is_terminal);
    let mut builder = WasiCtx::builder();
    builder
        .max_random_size(MAX_RANDOM)
        .stdin(stdio.stdin())
        .stdout(stdio.output(0))
        .stderr(stdio.output(1))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .arg(job.source.argv0())
        .args(&job.args)
        .initial_cwd(job.work_dir.as_str());
    for (name, value) in &job.env {
        builder.env(name, value);
    }
    let mut preopen = |host: &Path, guest: &str, access| {
        let opened = builder.preopened_dir(host, guest, perms(access)).map(|_| ());
        opened.map_err(WasmError::engine("open a granted directory"))
    };
    preopen(root, "/", Access::ReadOnly)?;
    for mount in mounts {
        preopen(&mount.host, mount.guest.as_str(), mount.access)?;
    }
    if let Some(mount) = default.and_then(|index| mounts.get(index)) {
        // The libraries of programs search the last directories first.
        preopen(&mount.host, ".", mount.access)?;
    }
    let mut table = ResourceTable::new();
    let open_files = quota.open_files.map_or(EXTRA_TABLE_CAPACITY, |n| usize::try_from(n).unwrap_or(usize::MAX));
    table.set_max_capacity(open_files.saturating_add(EXTRA_TABLE_CAPACITY));
    Ok(State {
        wasi: builder.build(),
        table,
        limiter: MemoryLimiter::for_component(memory),
        quota: Arc::new(Mutex::new(quota)),
        stdio,
        descriptors: Descriptors::new(mounts, default).map_err(WasmError::io("open a grant below", root))?,
        channel,
        net,
    })
}
