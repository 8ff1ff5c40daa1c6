//! Checkpoints of sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{ByteSize, CancelToken, Limit};
use codebox_files::{Dir, InstanceScratch, copy_tree, open_inner_dir, open_last_dir};
use codebox_streams::{Output, Sinks, Stdin};

use crate::checkpoint::{self, Base, Expected, Restored, rebase};
use crate::code::CodeImage;
use crate::error::WasmError;
use crate::guest::{Channel, JobStreams};
use crate::image::MemoryImage;
use crate::interrupt::{CpuClock, HostCpuTime, Interrupt};
use crate::launch::GuestInstance;
use crate::mounts::Mount;
use crate::run::backend::{GuestSource, LoadedRuntime};
use crate::run::execution;
use crate::run::session::SessionGuest;
use crate::store::Store;

/// The private directories of a session.
const DIRS: [&str; 2] = ["work", "tmp"];

/// Returns the private directories that the guest sees: those in whose place no directory is granted.
pub(crate) fn private_dirs<'m>(
    scratch: &InstanceScratch,
    mounts: &'m [Mount],
) -> impl Iterator<Item = (&'static str, &'m Path)> + use<'m> {
    let places = DIRS.map(|name| (name, scratch.path(name)));
    let mounted = |place: &Path| mounts.iter().find(|mount| mount.host == place);
    places.into_iter().filter_map(move |(name, place)| Some((name, mounted(&place)?.host.as_path())))
}

/// Reads a checkpoint, and copies its directories into those of a new session. `memory` is the limit of the session.
pub(super) fn restore(
    dir: &Path,
    memory: Option<u64>,
    store: &Store,
    loaded: &LoadedRuntime,
    scratch: &mut InstanceScratch,
    mounts: &[Mount],
) -> Result<Restored, WasmError> {
    let (code, image) = parts_of(loaded)?;
    // The process that wrote the checkpoint may have put links there.
    let checkpoint = open_last_dir(dir).map_err(WasmError::io("open", dir))?;
    let mut restored = checkpoint::read(&checkpoint, &expected(&store.identity(), loaded, code, image))?;
    if memory.is_some_and(|limit| limit < restored.size as u64) {
        return Err(WasmError::MemoryLimit { needed: ByteSize::bytes(restored.size as u64) });
    }
    let private: Vec<&str> = private_dirs(scratch, mounts).map(|(name, _)| name).collect();
    let (mut bytes, mut entries) = (0, 0);
    for name in private {
        let Some(from) = open_saved_dir(&checkpoint, dir, name)? else { continue };
        let to = scratch.open(name).map_err(WasmError::io("open", &scratch.path(name)))?;
        let copied = copy_tree(&from, &to, u64::MAX).map_err(WasmError::io("copy", &dir.join(name)))?;
        (bytes, entries) = (bytes + copied.0, entries + copied.1);
    }
    // The description may come from elsewhere, and the limits apply to what is there.
    restored.state.written = restored.state.written.max(bytes);
    restored.state.created = restored.state.created.max(entries);
    Ok(restored)
}

/// Opens a private directory in a checkpoint. `None` if it was empty, or if a directory was granted in its place, when the checkpoint was made.
fn open_saved_dir(checkpoint: &Dir, path: &Path, name: &str) -> Result<Option<Dir>, WasmError> {
    match open_inner_dir(checkpoint, name) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(WasmError::io("open", &path.join(name))(error)),
    }
}

/// Copies a private directory of the guest into a checkpoint, unless it is empty. The directories are given with their paths.
fn copy_dir(name: &str, (from, from_path): (&Dir, &Path), (to, to_path): (&Dir, &Path)) -> Result<(), WasmError> {
    if from.entries().map_err(WasmError::io("read", from_path))?.next().is_none() {
        return Ok(());
    }
    let create = || {
        to.create_dir(name)?;
        open_inner_dir(to, name)
    };
    let created = create().map_err(WasmError::io("create", &to_path.join(name)))?;
    copy_tree(from, &created, u64::MAX).map(|_| ()).map_err(|error| match error.raw_os_error() {
        // A rule of the copy, with the path.
        None => WasmError::input("the checkpoint", format!("/{name}/{error}")),
        Some(_) => WasmError::io("copy", from_path)(error),
    })
}

/// Request to the prelude, which closes files that libraries keep open and open again when they need them.
const CLOSE_CACHES: &[u8] = b"{\"kind\":\"close_caches\"}\n";

/// Maximum time of that.
const CLOSE_CACHES_TIMEOUT: Duration = Duration::from_secs(10);

impl GuestInstance {
    /// Has the guest close the files that libraries keep open, if any files are open.
    pub(crate) async fn close_caches(mut self, clock: CpuClock) -> Result<Self, WasmError> {
        if self.guest().describe_open().is_empty() {
            return Ok(self);
        }
        let output = || Output::new(Limit::At(ByteSize::bytes(0)));
        self.start_job(JobStreams {
            stdin: Stdin::bytes(Vec::new()),
            stdout: output(),
            stderr: output(),
            sinks: Sinks::default(),
            is_terminal: false,
            channel: Channel::new(CLOSE_CACHES.to_vec()),
        })?;
        let interrupt = Interrupt {
            wall: Some(CLOSE_CACHES_TIMEOUT),
            cpu: None,
            clock,
            cancel: CancelToken::new(),
            abandoned: CancelToken::new(),
            egress: None,
            host_cpu_time: HostCpuTime::default(),
        };
        let (guest, ran) = execution::run_cell(SessionGuest::Used(self), interrupt, false).await?;
        match ran.end.reusable {
            true => Ok(guest),
            false => Err(WasmError::GuestLost),
        }
    }
}

/// The parts of a session that a checkpoint contains.
pub(crate) struct SavedParts {
    pub store: Store,
    pub loaded: Arc<LoadedRuntime>,
    /// Private directories, by name.
    pub dirs: Vec<(&'static str, PathBuf)>,
}

/// Writes a checkpoint to a new directory, which can share the first `shared` files of pages with the one before. An incomplete one is
/// removed. Returns the number of files that it shares.
pub(crate) fn save(
    guest: &mut GuestInstance,
    dir: &Path,
    shared: usize,
    saved: &SavedParts,
) -> Result<usize, WasmError> {
    fs::create_dir(dir).map_err(WasmError::io("create", dir))?;
    let written = write(guest, dir, shared, saved);
    if written.is_err() {
        // Remains are removed with the session.
        let _ = fs::remove_dir_all(dir);
    }
    written
}

fn write(guest: &mut GuestInstance, dir: &Path, shared: usize, saved: &SavedParts) -> Result<usize, WasmError> {
    let checkpoint = open_last_dir(dir).map_err(WasmError::io("open", dir))?;
    for (name, from) in &saved.dirs {
        let source = open_last_dir(from).map_err(WasmError::io("open", from))?;
        copy_dir(name, (&source, from), (&checkpoint, dir))?;
    }
    let (code, image) = parts_of(&saved.loaded)?;
    let runtime = saved.store.identity();
    guest.save(&checkpoint, shared, code, &expected(&runtime, &saved.loaded, code, image), image)
}

/// Writes a checkpoint of guests of the image `loaded` to a new directory, with `base` as its image. An incomplete one is removed.
pub(crate) fn export(
    store: &Store,
    loaded: &LoadedRuntime,
    base: &LoadedRuntime,
    from: &Path,
    to: &Path,
) -> Result<(), WasmError> {
    fs::create_dir(to).map_err(WasmError::io("create", to))?;
    let written = write_export(store, loaded, base, from, to);
    if written.is_err() {
        // Remains are removed with the directory of the caller.
        let _ = fs::remove_dir_all(to);
    }
    written
}

fn write_export(
    store: &Store,
    loaded: &LoadedRuntime,
    base: &LoadedRuntime,
    from: &Path,
    to: &Path,
) -> Result<(), WasmError> {
    let ((code, image), (_, base_image)) = (parts_of(loaded)?, parts_of(base)?);
    let source = open_last_dir(from).map_err(WasmError::io("open", from))?;
    let exported = open_last_dir(to).map_err(WasmError::io("open", to))?;
    for name in DIRS {
        if let Some(dir) = open_saved_dir(&source, from, name)? {
            copy_dir(name, (&dir, &from.join(name)), (&exported, to))?;
        }
    }
    let checkpoint = checkpoint::read(&source, &expected(&store.identity(), loaded, code, image))?;
    let sha256 = base.digest.as_deref().unwrap_or_default();
    rebase(checkpoint, image.bytes(), &Base { name: &base.name, sha256, bytes: base_image.bytes() }, &exported)
}

fn parts_of(loaded: &LoadedRuntime) -> Result<(&CodeImage, &MemoryImage), WasmError> {
    match &loaded.guest_source {
        GuestSource::Image { code, pool } => Ok((code, pool.image())),
        GuestSource::Component(_) | GuestSource::Program(_) => {
            Err(WasmError::input("the checkpoint", "components have none"))
        }
    }
}

fn expected<'e>(runtime: &'e str, loaded: &'e LoadedRuntime, code: &CodeImage, image: &'e MemoryImage) -> Expected<'e> {
    Expected {
        runtime,
        image: &loaded.name,
        image_sha256: loaded.digest.as_deref().unwrap_or_default(),
        image_size: image.len(),
        globals: &image.facts().globals,
        parts: code.later.as_ref().map_or(0, |later| later.count()),
    }
}
