//! Provides the engine with a prepared region for a module's linear memory.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

use crate::engine::{MEMORY_GUARD_SIZE, MEMORY_RESERVATION};
use crate::region::{Region, RegionPool, ReuseFlag};
use crate::sys::Reservation;

thread_local! {
    /// The region for the next memory that is created on this thread.
    static NEXT_LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
}

/// A region on loan from its pool to one instance.
pub(crate) struct Lease {
    pub region: Region,
    /// The size that the module declares for its memory, which distinguishes it from the engine's own memory.
    pub minimum: usize,
    pub pool: Arc<RegionPool>,
    pub reuse_flag: Arc<ReuseFlag>,
}

/// Runs `make` and uses the leased region for the module's memory that `make` creates on this thread.
///
/// The engine's memory creator receives no instance, so a thread-local variable passes the lease. `make` has to create
/// the memory before it returns, as instantiation without a start function does.
pub(crate) fn with_lease<T>(lease: Lease, make: impl FnOnce() -> T) -> T {
    NEXT_LEASE.with(|next| next.replace(Some(lease)));
    let made = make();
    NEXT_LEASE.with(|next| next.take());
    made
}

/// The engine's memory creator. A module's memory is a leased region, and the engine's own garbage-collected heap is
/// plain.
#[derive(Default)]
pub(crate) struct RegionCreator {
    /// Address space of engine heaps that were never used. Most guests throw no exception and use no heap.
    unused: Arc<Mutex<Vec<Reservation>>>,
}

/// Maximum number of unused heaps to keep.
const MAX_UNUSED: usize = 64;

// SAFETY: a memory's base never moves, its address space covers the whole reservation and guard that the engine
// requests, and accesses beyond the accessible size fault. The engine's assumptions about elided bounds checks
// therefore hold. A module's memory is intentionally not zero-filled but filled from an image: the only modules that
// this engine runs had their data segments moved to that image. Every other memory starts as zeros.
unsafe impl MemoryCreator for RegionCreator {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let is_module_memory =
            NEXT_LEASE.with(|next| next.borrow().as_ref().is_some_and(|lease| lease.minimum == minimum));
        let reserved = reserved.ok_or("the engine requested a memory that can move")?;
        if !is_module_memory {
            let plain = ZeroedMemory::new(minimum, reserved, guard, &self.unused);
            return Ok(Box::new(plain.map_err(|e| e.to_string())?));
        }
        if reserved > MEMORY_RESERVATION || guard > MEMORY_GUARD_SIZE {
            return Err("the engine requested more address space than a region has".into());
        }
        Ok(Box::new(LeasedMemory(NEXT_LEASE.with(|next| next.take()))))
    }
}

/// A memory that starts as zeros and is used by the engine alone.
struct ZeroedMemory {
    space: Option<Reservation>,
    reserved: usize,
    accessible: usize,
    unused: Arc<Mutex<Vec<Reservation>>>,
}

impl ZeroedMemory {
    fn new(
        minimum: usize,
        reserved: usize,
        guard: usize,
        unused: &Arc<Mutex<Vec<Reservation>>>,
    ) -> std::io::Result<Self> {
        let kept = unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut space = match kept.filter(|space| space.len() == reserved + guard) {
            Some(space) => space,
            None => Reservation::new(reserved + guard)?,
        };
        if minimum > 0 {
            space.make_accessible(0..minimum)?;
        }
        Ok(Self { space: Some(space), reserved, accessible: minimum, unused: unused.clone() })
    }

    fn space(&mut self) -> &mut Reservation {
        self.space.as_mut().expect("a memory keeps its space until it is dropped")
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        // Address space that was never made accessible holds no data.
        if self.accessible == 0 && unused.len() < MAX_UNUSED {
            unused.extend(self.space.take());
        }
    }
}

// SAFETY: as for `LeasedMemory`: a fixed base, `accessible` usable bytes and growth within the reservation only.
unsafe impl LinearMemory for ZeroedMemory {
    fn byte_size(&self) -> usize {
        self.accessible
    }

    fn byte_capacity(&self) -> usize {
        self.reserved
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        if new_size > self.reserved {
            return Err(std::io::Error::from(std::io::ErrorKind::OutOfMemory).into());
        }
        let grown = self.accessible..new_size;
        self.space().make_accessible(grown)?;
        self.accessible = new_size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.space.as_ref().expect("a memory keeps its space until it is dropped").base()
    }
}

/// A leased region as the engine's memory. Dropping it returns the region of a cleanly ended guest to the pool.
struct LeasedMemory(Option<Lease>);

impl LeasedMemory {
    fn region(&self) -> &Region {
        &self.0.as_ref().expect("a loan keeps its lease until it is dropped").region
    }
}

// SAFETY: the base and the reserved size never change, `byte_size` bytes from the base are always accessible, and
// growth only ever adds accessible bytes.
unsafe impl LinearMemory for LeasedMemory {
    fn byte_size(&self) -> usize {
        self.region().accessible()
    }

    fn byte_capacity(&self) -> usize {
        MEMORY_RESERVATION
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        let lease = self.0.as_mut().expect("a loan keeps its lease until it is dropped");
        lease.region.grow_to(new_size)?;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.region().base()
    }
}

impl Drop for LeasedMemory {
    fn drop(&mut self) {
        match self.0.take() {
            Some(Lease { region, pool, reuse_flag, minimum: _ }) if reuse_flag.is_clean() => pool.release(region),
            Some(Lease { region, pool, .. }) => pool.discard(region),
            None => {}
        }
    }
}
