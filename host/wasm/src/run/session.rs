//! The guest of a session, which is kept from one cell to the next.

use std::sync::Arc;

use codebox_core::{NetworkUsage, SessionSpec};
use codebox_egress::Egress;
use codebox_files::InstanceScratch;

use crate::code::CodeImage;
use crate::error::WasmError;
use crate::guest::JobStreams;
use crate::launch::{Entry, GuestInstance, Setup};
use crate::mounts::Mount;
use crate::region::RegionPool;
use crate::run::backend::LoadedRuntime;
use crate::run::execution::entry;
use crate::store::Store;

#[cfg(target_os = "linux")]
mod saved;

#[cfg(target_os = "linux")]
pub(crate) use saved::{SavedParts, export, private_dirs, save};

/// A session.
pub(crate) struct Session {
    /// `None` before the first cell, and after one that ended the guest.
    pub kept: Option<KeptGuest>,
    /// True if the random numbers of the restored state go on.
    pub resumes: bool,
    /// Seed of the guest's random numbers.
    pub seed: Option<[u8; 32]>,
    /// The checkpoint that the session starts with.
    #[cfg(target_os = "linux")]
    restored: Option<crate::checkpoint::Restored>,
}

/// A guest between two cells.
pub(crate) struct KeptGuest {
    pub guest: GuestInstance,
    pub egress: Option<Egress>,
    /// Network activity of all cells so far.
    pub network: NetworkUsage,
}

/// A guest that is about to run a cell.
pub(crate) enum SessionGuest {
    /// A guest that was started from its image, with the text that starts its first job.
    New(GuestInstance, Entry),
    /// A guest that has run cells, in this process or before it was saved.
    Used(GuestInstance),
}

impl Session {
    /// Creates a session, and fills its private directories from the checkpoint that it starts with.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(
        spec: SessionSpec,
        memory: Option<u64>,
        store: &Store,
        loaded: &LoadedRuntime,
        scratch: &mut InstanceScratch,
        mounts: &[Mount],
    ) -> Result<Self, WasmError> {
        let restored = match spec.restore {
            Some(dir) => Some(saved::restore(&dir, memory, store, loaded, scratch, mounts)?),
            None => None,
        };
        Ok(Self { kept: None, resumes: spec.resumes, seed: spec.seed, restored })
    }

    /// Creates a session.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(
        spec: SessionSpec,
        _: Option<u64>,
        _: &Store,
        _: &LoadedRuntime,
        _: &mut InstanceScratch,
        _: &[Mount],
    ) -> Result<Self, WasmError> {
        match spec.restore {
            Some(_) => Err(WasmError::input("the checkpoint", "sessions can be restored on Linux only")),
            None => Ok(Self { kept: None, resumes: false, seed: spec.seed }),
        }
    }

    /// Starts the guest for the next cell.
    pub(crate) fn start(
        &mut self,
        code: &CodeImage,
        pool: &Arc<RegionPool>,
        setup: Setup<'_>,
    ) -> Result<SessionGuest, WasmError> {
        #[cfg(target_os = "linux")]
        if let Some(restored) = self.restored.take() {
            let totals = (restored.state.written, restored.state.created);
            let mut guest = GuestInstance::restore(code, pool, setup, restored)?;
            guest.guest().quota.continue_from(totals);
            return Ok(SessionGuest::Used(guest));
        }
        Ok(SessionGuest::New(GuestInstance::start(code, pool, setup)?, entry(pool)?))
    }

    /// Continues in the guest of the cell before.
    pub(crate) fn continue_in(
        &mut self,
        mut guest: GuestInstance,
        streams: JobStreams,
    ) -> Result<SessionGuest, WasmError> {
        guest.start_job(streams)?;
        Ok(SessionGuest::Used(guest))
    }
}
