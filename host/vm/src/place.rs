//! The files of the user's machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_files::SocketDir;

use crate::provider::Provider;
use crate::qemu::Qemu;
use crate::spec::VmSpec;

/// Time without use after which the machine is turned off by default.
pub const DEFAULT_IDLE: Duration = Duration::from_secs(15 * 60);

/// Settings of the user's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmSettings {
    /// Directory with the machine, the process that keeps it and the sockets.
    pub dir: PathBuf,
    /// Directory of the image.
    pub image: PathBuf,
    /// Resources.
    pub spec: VmSpec,
    /// Time without use after which the machine is turned off.
    pub idle: Duration,
}

impl VmSettings {
    /// Returns the provider of the machine on this system.
    #[must_use]
    pub fn provider(&self) -> Box<dyn Provider> {
        Box::new(Qemu::new(self.dir.join("machine")))
    }

    /// Returns the socket that is connected to Podman.
    pub(crate) fn podman_socket(&self) -> PathBuf {
        self.dir.join("podman.sock")
    }

    /// Returns the directory of the process that keeps the machine.
    pub(crate) fn keeper(&self) -> SocketDir {
        SocketDir::new(keeper_dir(&self.dir))
    }
}

fn keeper_dir(dir: &Path) -> PathBuf {
    dir.join("keeper")
}
