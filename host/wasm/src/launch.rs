//! Instantiates a guest from an image and calls it.

use std::future::Future;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use codebox_core::{Access, ByteSize, CodeScope, Job};
#[cfg(target_os = "linux")]
use codebox_files::Dir;
use codebox_streams::Delivery;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use wasmtime::{Instance, Memory, Store, TypedFunc, Val};
use wasmtime_wasi::{FsPerms, WasiCtxBuilder, WasiView};

#[cfg(target_os = "linux")]
use crate::checkpoint::{self, Expected, Restored, SavedPages, State, write_pages};
use crate::code::{CodeImage, LaterParts, TRAP};
use crate::error::WasmError;
use crate::guest::{
    DescriptorTable, Guest, GuestClock, GuestResult, JobStreams, Listings, MemoryLimiter, Net, Parts, Quota, Witness,
    load_parts,
};
use crate::image::{GlobalValue, ImageFacts, MemoryImage};
use crate::interrupt::{Interrupt, StopReason, Ticker, TickerGuard};
use crate::mounts::{Mount, MountTable};
use crate::region::{Lease, RegionPool, ReuseFlag, with_lease};
use crate::sys::{Divertible, DivertibleCode};

/// Maximum random bytes per call.
pub(crate) const MAX_RANDOM: u64 = 16 << 20;

/// Entries of a store's resource table in addition to the open files of the quota: streams and polls in progress.
pub(crate) const EXTRA_TABLE_CAPACITY: usize = 4096;

/// Deadline of an instantiation, in ticks of the epoch: in effect none.
const TICKS_OF_INSTANTIATION: u64 = 1 << 40;

/// The resources of a new guest.
pub(crate) struct Setup<'a> {
    /// The read-only directory that the guest sees as `/`, with an empty directory for each mount point.
    pub root: &'a Path,
    pub mounts: &'a [Mount],
    /// Maximum size of the guest's memory in bytes.
    pub memory: Option<u64>,
    pub quota: Quota,
    pub streams: JobStreams,
    pub net: Option<Net>,
    pub code: CodeScope,
    /// Observer of what the guest uses of its surroundings.
    pub witness: Option<Arc<Witness>>,
    /// Seed of the guest's random numbers; `None` for those of the system.
    pub seed: Option<[u8; 32]>,
}

/// The state in which a guest starts, in addition to the contents of its memory.
struct Start<'s> {
    /// Size of the memory in bytes.
    size: u64,
    /// Number of parts of the code.
    parts: usize,
    globals: &'s [GlobalValue],
    /// Time that the monotonic clock shows.
    clock: Duration,
}

/// The text that a guest runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry {
    /// Address and length of a text in the guest's memory. The guest frees it.
    Copied(u32, u32),
    /// A text that is copied into the guest's memory first.
    Text(&'static [u8]),
}

/// A guest's instance and store.
pub(crate) struct GuestInstance {
    store: Store<Guest>,
    instance: Instance,
    divertible: Option<Arc<dyn DivertibleCode>>,
    ticker: Arc<Ticker>,
    /// The parts of the code that the store may use. They are dropped after the store.
    _later: Option<Arc<LaterParts>>,
    reuse_flag: Arc<ReuseFlag>,
    /// `None` between the jobs of a session.
    running: Option<TickerGuard>,
    /// Pages of the last checkpoint, which it was saved to or restored from.
    #[cfg(target_os = "linux")]
    saved: SavedPages,
}

impl GuestInstance {
    /// Creates an instance with the memory and globals of an image, and the code that the image needs. No wasm code
    /// runs.
    #[tracing::instrument(level = "debug", name = "instantiate", skip_all)]
    pub(crate) fn start(code: &CodeImage, pool: &Arc<RegionPool>, setup: Setup<'_>) -> Result<Self, WasmError> {
        let image = pool.image().clone();
        let facts = image.facts();
        let parts = match setup.code {
            // The memory of the image refers to functions of all parts that were loaded when it was made.
            CodeScope::Image => facts.parts,
            CodeScope::All => code.later.as_ref().map_or(0, |later| later.count()),
        };
        let reuse_flag = Arc::new(ReuseFlag::default());
        let start = Start { size: image.len() as u64, parts, globals: &facts.globals, clock: Duration::ZERO };
        let seed = setup.seed;
        let lease = || pool.lease(code.minimum, reuse_flag.clone());
        let mut this = Self::instantiate(code, setup, &start, reuse_flag.clone(), lease)?;
        match seed {
            // Other numbers than those of the guest's own requests.
            Some(seed) => this.reseed_generators(facts, &mut StdRng::from_seed(seed.map(|byte| !byte)))?,
            None => this.reseed_generators(facts, &mut rand::rng())?,
        }
        Ok(this)
    }

    /// Creates an instance with the memory of a checkpoint.
    #[cfg(target_os = "linux")]
    pub(crate) fn restore(
        code: &CodeImage,
        pool: &Arc<RegionPool>,
        setup: Setup<'_>,
        restored: Restored,
    ) -> Result<Self, WasmError> {
        let Restored { state, size, pages } = restored;
        let start = Start { size: size as u64, parts: state.parts, globals: &state.globals, clock: state.clock };
        let failed = |source| WasmError::Memory { doing: "map", bytes: size, source };
        let lease =
            || pool.lease_restored(code.minimum, |region| region.restore_pages_of(size, &pages).map_err(failed));
        let mut this = Self::instantiate(code, setup, &start, Arc::default(), lease)?;
        this.saved = pages;
        Ok(this)
    }

    fn instantiate(
        code: &CodeImage,
        setup: Setup<'_>,
        start: &Start<'_>,
        reuse_flag: Arc<ReuseFlag>,
        lease: impl FnOnce() -> Result<Lease, WasmError>,
    ) -> Result<Self, WasmError> {
        if setup.memory.is_some_and(|limit| limit < start.size) {
            return Err(WasmError::MemoryLimit { needed: ByteSize::bytes(start.size) });
        }
        let ticker = code.engine.ticker().clone();
        let checks_epoch = code.divertible.is_none();
        let running = Some(run_ticker(&ticker, checks_epoch.then(|| code.engine.inner()))?);
        let mut store = Store::new(code.engine.inner(), guest(code, setup, start)?);
        store.limiter(|guest| &mut guest.limiter);
        if checks_epoch {
            // Code that the engine generates fills the tables. It must not yield, because nothing waits for it.
            store.set_epoch_deadline(TICKS_OF_INSTANTIATION);
        }
        let instance = with_lease(lease()?, || poll_immediate(code.pre.instantiate_async(&mut store)))?
            .map_err(WasmError::engine("instantiate the runtime"))?;
        if let Some(parts) = &mut store.data_mut().parts {
            parts.set_primary(instance);
        }
        poll_immediate(load_parts(&mut store, start.parts))?
            .map_err(WasmError::engine("load the code of the image"))?;
        if checks_epoch {
            store.set_epoch_deadline(1);
            store.epoch_deadline_async_yield_and_update(1);
        }
        let divertible = code.divertible.clone();
        let later = code.later.clone();
        let mut this = Self {
            store,
            instance,
            divertible,
            ticker,
            _later: later,
            reuse_flag,
            running,
            #[cfg(target_os = "linux")]
            saved: SavedPages::default(),
        };
        this.set_globals(code, start.globals)?;
        Ok(this)
    }

    /// Starts a further job of a guest that has ended one by itself. The guest keeps its memory and its open files.
    pub(crate) fn start_job(&mut self, streams: JobStreams) -> Result<(), WasmError> {
        let engine = self.divertible.is_none().then(|| self.store.engine());
        self.running = Some(run_ticker(&self.ticker, engine)?);
        self.store.data_mut().start_job(streams);
        Ok(())
    }

    /// Ends a job, and returns its results. The guest can start a further job.
    pub(crate) fn end_job(&mut self) -> GuestResult {
        self.running = None;
        self.store.data_mut().take_result()
    }

    /// Writes the state of a guest between two jobs to a new checkpoint, which can share the first `shared` files with the one before.
    /// Returns the number of files that it shares.
    #[cfg(target_os = "linux")]
    pub(crate) fn save(
        &mut self,
        dir: &Dir,
        shared: usize,
        code: &CodeImage,
        expected: &Expected<'_>,
        image: &MemoryImage,
    ) -> Result<usize, WasmError> {
        let globals = self.globals(code)?;
        let guest = self.guest();
        let parts = guest.parts.as_ref().map_or(0, Parts::loaded);
        let (clock, (written, created)) = (guest.clock.elapsed(), guest.quota.totals());
        let memory = self.memory().map_err(WasmError::engine("read the guest's memory"))?.data_mut(&mut self.store);
        let next = self.saved.next_file(memory, image, shared).map_err(|source| WasmError::Memory {
            doing: "find the written pages in",
            bytes: memory.len(),
            source,
        })?;
        let mut state = State::new(expected, memory.len(), &next.ranges);
        (state.globals, state.parts, state.clock) = (globals, parts, clock);
        (state.written, state.created) = (written, created);
        let state = state.with_earlier(self.saved.files().take(next.kept));
        let file = checkpoint::write(dir, |file| write_pages(file, memory, &next.ranges).map(|()| state))?;
        // Its pages are those of the checkpoint now, and a reset would not find them.
        self.reuse_flag.forbid();
        let kept = next.kept;
        self.saved.add(memory, next, file);
        Ok(kept)
    }

    /// Returns the handle by which the guest is stopped. `None` if the guest's code checks for interruption.
    fn divertible(&mut self) -> Result<Option<Divertible>, WasmError> {
        let Some(code) = self.divertible.clone() else { return Ok(None) };
        let trap = self.instance.get_func(&mut self.store, TRAP);
        let trap = trap.ok_or_else(|| WasmError::Prelude(format!("the module exports no function {TRAP}")))?;
        // SAFETY: the only caller lets the handle be entered while it polls a future that borrows this store, and the
        // version of `wasmtime_environ` is that of the engine (Cargo.toml).
        let made = unsafe { Divertible::new(code, trap, &mut self.store) };
        made.map_err(|source| WasmError::Engine { doing: "prepare to stop the guest", source: source.into() })
    }

    /// Calls an export without parameters and results.
    pub(crate) async fn call_unit(&mut self, name: &'static str) -> wasmtime::Result<()> {
        let call: TypedFunc<(), ()> = self.instance.get_typed_func(&mut self.store, name)?;
        call.call_async(&mut self.store, ()).await
    }

    /// Returns true if the guest lets other tasks of its thread run while it computes.
    pub(crate) fn yields(&self) -> bool {
        self.divertible.is_none()
    }

    /// Returns true if the guest has an export of this name.
    pub(crate) fn has_export(&mut self, name: &str) -> bool {
        self.instance.get_export(&mut self.store, name).is_some()
    }

    /// Copies bytes into memory that the guest allocates, and returns their address and length.
    pub(crate) async fn copy_into_guest(&mut self, bytes: &[u8]) -> wasmtime::Result<(u32, u32)> {
        let len = i32::try_from(bytes.len())?;
        let allocate: TypedFunc<i32, i32> = self.instance.get_typed_func(&mut self.store, "host_alloc")?;
        let at = allocate.call_async(&mut self.store, len).await?;
        self.memory()?.write(&mut self.store, at as u32 as usize, bytes)?;
        Ok((at as u32, len as u32))
    }

    /// Runs the program text at an address and returns its status.
    pub(crate) async fn turn(&mut self, at: u32, len: u32) -> wasmtime::Result<i32> {
        let turn: TypedFunc<(i32, i32), i32> = self.instance.get_typed_func(&mut self.store, "turn")?;
        turn.call_async(&mut self.store, (at as i32, len as i32)).await
    }

    /// Runs a program text, and delivers its output, until the program ends or has to be stopped. Returns
    /// the program's status or the reason, and the processor time.
    pub(crate) async fn run_turn(
        &mut self,
        interrupt: &Interrupt,
        entry: Entry,
    ) -> Result<(Result<wasmtime::Result<i32>, StopReason>, Duration), WasmError> {
        let ticker = self.ticker.clone();
        let divertible = self.divertible()?.map(|guest| (guest, &*ticker));
        let turn = async {
            let end = match entry {
                Entry::Copied(at, len) => self.turn(at, len).await,
                Entry::Text(text) => match self.copy_into_guest(text).await {
                    Ok((at, len)) => self.turn(at, len).await,
                    Err(error) => Err(error),
                },
            };
            // A program has ended once its output is delivered.
            self.guest().delivery.finish().await;
            end
        };
        Ok(interrupt.watch(turn, divertible).await)
    }

    /// Marks the guest as idle and consistent, so that its region may be used again.
    pub(crate) fn mark_clean(&self) {
        self.reuse_flag.mark_clean();
    }

    pub(crate) fn guest(&mut self) -> &mut Guest {
        self.store.data_mut()
    }

    /// Releases the guest's memory and returns the guest's state.
    pub(crate) fn end(self) -> Guest {
        self.store.into_data()
    }

    /// Returns all of the guest's memory.
    pub(crate) fn bytes(&mut self) -> wasmtime::Result<&[u8]> {
        Ok(self.memory()?.data(&self.store))
    }

    /// Returns the values of the mutable globals, in the order of an image.
    pub(crate) fn globals(&mut self, code: &CodeImage) -> Result<Vec<GlobalValue>, WasmError> {
        code.globals
            .iter()
            .map(|name| match self.instance.get_global(&mut self.store, name).map(|g| g.get(&mut self.store)) {
                Some(Val::I32(value)) => Ok(GlobalValue::I32(value)),
                Some(Val::I64(value)) => Ok(GlobalValue::I64(value)),
                _ => Err(WasmError::Prelude(format!("global {name} has a type that images do not support"))),
            })
            .collect()
    }

    fn set_globals(&mut self, code: &CodeImage, globals: &[GlobalValue]) -> Result<(), WasmError> {
        for (name, value) in code.globals.iter().zip(globals) {
            let value = match *value {
                GlobalValue::I32(value) => Val::I32(value),
                GlobalValue::I64(value) => Val::I64(value),
            };
            let global = self.instance.get_global(&mut self.store, name);
            let global =
                global.ok_or_else(|| WasmError::Prelude(format!("global {name} is missing from the module")))?;
            global.set(&mut self.store, value).map_err(WasmError::engine("set the guest's globals"))?;
        }
        Ok(())
    }

    /// Replaces the states of the guest's random number generators with new random bytes.
    fn reseed_generators(&mut self, facts: &ImageFacts, random: &mut impl Rng) -> Result<(), WasmError> {
        if facts.seeds.is_empty() {
            return Ok(());
        }
        let failed = |why: String| WasmError::Prelude(format!("cannot reseed random generators: {why}"));
        let memory = self.memory().map_err(|e| failed(e.to_string()))?.data_mut(&mut self.store);
        for &(at, len) in &facts.seeds {
            let place = memory.get_mut(at as usize..).and_then(|rest| rest.get_mut(..len as usize));
            let place = place.ok_or_else(|| failed("state is outside the guest's memory".into()))?;
            random.fill_bytes(place);
        }
        Ok(())
    }

    fn memory(&mut self) -> wasmtime::Result<Memory> {
        let memory = self.instance.get_memory(&mut self.store, "memory");
        memory.ok_or_else(|| wasmtime::Error::msg("the guest exports no memory"))
    }
}

fn run_ticker(ticker: &Ticker, engine: Option<&wasmtime::Engine>) -> Result<TickerGuard, WasmError> {
    ticker.run(engine).map_err(WasmError::clock)
}

fn guest(code: &CodeImage, setup: Setup<'_>, start: &Start<'_>) -> Result<Guest, WasmError> {
    let limiter = MemoryLimiter::new(setup.memory, start.size);
    let guest = new_guest(setup, GuestClock::starting_at(start.clock), limiter, WasiCtxBuilder::new())?;
    Ok(Guest { parts: code.later.clone().map(Parts::new), ..guest })
}

/// Returns the state of a program that is a module. Its relative paths lead to the mount `default`.
pub(crate) fn program_guest(setup: Setup<'_>, job: &Job, default: Option<usize>) -> Result<Guest, WasmError> {
    let mut builder = WasiCtxBuilder::new();
    builder.arg(job.source.argv0()).args(&job.args);
    for (name, value) in &job.env {
        builder.env(name, value);
    }
    let limiter = MemoryLimiter::for_component(setup.memory);
    let mut guest = new_guest(setup, GuestClock::starting_at(Duration::ZERO), limiter, builder)?;
    guest.mounts.set_default(default);
    Ok(guest)
}

fn new_guest(
    setup: Setup<'_>,
    clock: GuestClock,
    limiter: MemoryLimiter,
    mut builder: WasiCtxBuilder,
) -> Result<Guest, WasmError> {
    let Setup { root, mounts, memory: _, quota, streams, net, code: _, witness, seed } = setup;
    let JobStreams { stdin, stdout, stderr, sinks, is_terminal, channel } = streams;
    builder.monotonic_clock(clock);
    builder.max_random_size(MAX_RANDOM);
    if let Some(seed) = seed {
        builder.secure_random(StdRng::from_seed(seed)).insecure_random(StdRng::from_seed(seed));
    }
    if let Some(witness) = &witness {
        witness.observe(&mut builder);
    }
    let preopen = |builder: &mut WasiCtxBuilder, host: &Path, guest: &str, perms| {
        builder.preopened_dir(host, guest, perms).map(|_| ()).map_err(WasmError::engine("open a granted directory"))
    };
    preopen(&mut builder, root, "/", FsPerms::ReadOnly)?;
    for mount in mounts {
        let perms = match mount.access {
            Access::ReadOnly => FsPerms::ReadOnly,
            Access::ReadWrite => FsPerms::ReadWrite,
        };
        preopen(&mut builder, &mount.host, mount.guest.as_str(), perms)?;
    }
    let mut wasi = builder.build_p1();
    let open_files = quota.open_files.map_or(EXTRA_TABLE_CAPACITY, |n| usize::try_from(n).unwrap_or(usize::MAX));
    wasi.ctx().table.set_max_capacity(open_files.saturating_add(EXTRA_TABLE_CAPACITY));
    Ok(Guest {
        wasi,
        mounts: MountTable::new(mounts).map_err(WasmError::io("open a grant below", root))?,
        limiter,
        quota,
        stdin,
        stdout,
        stderr,
        delivery: Delivery::new(sinks),
        descriptors: DescriptorTable::new(is_terminal),
        listings: Listings::default(),
        missed: codebox_core::MissedFiles::default(),
        channel,
        net,
        parts: None,
        witness,
        clock,
    })
}

/// Polls a future that completes without waiting. Fails if the future is pending.
fn poll_immediate<F: Future>(future: F) -> Result<F::Output, WasmError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(WasmError::Prelude("the module runs code during instantiation".into())),
    }
}

#[cfg(test)]
mod tests;
