//! Virtual machines in which an engine runs. The engine sees the files of its machine, and not those of this one.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use codebox_core::path::Mount;
use codebox_core::{Access, BoxFuture, HostPath, PathMap, Progress, Sweep, Unavailable, VmPath};

use crate::error::ContainerError;
use crate::mounts::Bind;

/// Value that keeps something available until it is dropped.
pub type Guard = Box<dyn Any + Send + Sync>;

/// Virtual machine with an engine.
pub trait EngineMachine: Send + Sync {
    /// Returns true if the machine can be started, as far as files show.
    fn may_be_available(&self) -> bool;

    /// Returns true if the machine runs.
    fn is_running(&self) -> bool;

    /// Checks that the machine can be started, starting nothing.
    ///
    /// # Errors
    /// Returns the reason, and the action that makes it available.
    fn probe(&self) -> Result<(), Unavailable>;

    /// Sets the receiver of reports about the start of the machine. The first one stays.
    fn report_to(&self, progress: &Arc<dyn Progress>);

    /// Starts the machine unless it runs, and returns the engine in it.
    fn start(&self) -> BoxFuture<'_, Result<MachineEngine, Unavailable>>;

    /// Ends a machine that a killed process has left, or finds it only. Returns true if there is one.
    ///
    /// # Errors
    /// Returns the reason for which it cannot be found or ended.
    fn sweep(&self, how: Sweep) -> BoxFuture<'_, Result<bool, Unavailable>>;

    /// Makes directories and files of this machine available in the virtual one.
    fn place(&self, dirs: Vec<PlacedDir>, files: Vec<PathBuf>) -> BoxFuture<'_, Result<Placed, Unavailable>>;
}

/// Engine of a virtual machine that runs. The machine runs as long as the guard.
pub struct MachineEngine {
    /// Socket of this machine that is connected to the engine.
    pub socket: PathBuf,
    /// User that the engine and the shared files belong to in the virtual machine.
    pub user: u32,
    /// Group of cgroup v2 for containers, which the user of the engine may divide.
    pub group: String,
    /// Use of the machine.
    pub guard: Guard,
}

/// Directory of this machine that a container needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedDir {
    /// The directory.
    pub path: PathBuf,
    /// Access of the machine.
    pub access: Access,
    /// True if its files do not change.
    pub is_constant: bool,
}

/// Directories and files in a virtual machine, as long as the guard.
pub struct Placed {
    /// Paths in the machine, in the order of the request: directories, then files.
    pub paths: Vec<VmPath>,
    /// Use of the directories.
    pub guard: Guard,
}

/// Returns the error for a machine that cannot be used.
pub(crate) fn unavailable(why: Unavailable) -> ContainerError {
    ContainerError::NoEngine { reason: why.reason, fix: why.fix, unresponsive: true }
}

/// Makes the sources of binds available in a machine, and returns the binds with their paths there. `private` is the directory of the
/// instance, which is shared as a whole, and the files of `constant` directories do not change.
pub(crate) async fn place_binds(
    machine: &dyn EngineMachine,
    binds: Vec<Bind>,
    private: &Path,
    constant: &[PathBuf],
) -> Result<(Vec<Bind>, Guard), ContainerError> {
    let mut dirs = vec![PlacedDir { path: private.to_owned(), access: Access::ReadWrite, is_constant: false }];
    let mut files: Vec<PathBuf> = Vec::new();
    for bind in binds.iter().filter(|bind| !bind.host.starts_with(private)) {
        if bind.host.is_file() {
            files.push(bind.host.clone());
        } else if let Some(known) = dirs.iter_mut().find(|dir| dir.path == bind.host) {
            // The access of the container is that of its bind.
            known.access = known.access.max(bind.access);
        } else {
            let is_constant = constant.contains(&bind.host);
            dirs.push(PlacedDir { path: bind.host.clone(), access: bind.access, is_constant });
        }
    }
    files.sort_unstable();
    files.dedup();
    let sources: Vec<(PathBuf, Access)> = dirs.iter().map(|dir| (dir.path.clone(), dir.access)).collect();
    let sources = sources.into_iter().chain(files.iter().map(|file| (file.clone(), Access::ReadOnly)));
    let unusable = |path: &Path, why: &dyn std::fmt::Display| ContainerError::Grant {
        path: path.to_owned(),
        why: format!("it cannot be mounted in the virtual machine: {why}"),
    };
    let placed = machine.place(dirs, files.clone()).await.map_err(unavailable)?;
    let mut mounts = Vec::new();
    for ((path, access), to) in sources.zip(placed.paths) {
        let from = HostPath::native(&path).map_err(|error| unusable(&path, &error))?;
        mounts.push(Mount { from, to, access });
    }
    let map: PathMap<HostPath, VmPath> = PathMap::new(mounts).map_err(|error| unusable(private, &error))?;
    let moved = binds.into_iter().map(|bind| {
        let host = HostPath::native(&bind.host).map_err(|error| unusable(&bind.host, &error))?;
        let there = map.to_guest(&host).map_err(|error| unusable(&bind.host, &error))?;
        Ok(Bind { host: PathBuf::from(there.to_string()), ..bind })
    });
    Ok((moved.collect::<Result<_, ContainerError>>()?, placed.guard))
}
