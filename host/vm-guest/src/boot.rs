//! Start in the initial file system: the modules for the disk, and the root file system on it.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::system::finit_module;

/// Names of modules in the order in which they are loaded, one a line.
const MODULES: &str = "/modules/order";

/// Disk with the root file system.
const DISK: &str = "/dev/vda";

const ROOT: &str = "/newroot";

/// Path of this program in the root file system.
const PROGRAM: &str = "/usr/lib/codebox/vm-guest";

/// Time for the kernel to find the disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns true in the initial file system.
pub(crate) fn is_initial() -> bool {
    Path::new(MODULES).exists()
}

/// Mounts the root file system, and becomes its first process.
pub(crate) fn boot() -> io::Result<()> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        fs::create_dir_all(at)?;
        mount_kind(kind, at, "")?;
    }
    for name in fs::read_to_string(MODULES)?.lines() {
        let file = File::open(Path::new("/modules").join(name))?;
        match finit_module(&file, c"", 0) {
            // It is loaded, or a part of the kernel.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => eprintln!("codebox-vm: cannot load {name}: {error}"),
        }
    }
    let until = Instant::now() + DISK_TIMEOUT;
    while !Path::new(DISK).exists() {
        if Instant::now() > until {
            return Err(io::Error::other("the disk is missing"));
        }
        sleep(Duration::from_millis(2));
    }
    fs::create_dir_all(ROOT)?;
    mount(DISK, ROOT, "ext4", MountFlags::NOATIME, c"errors=remount-ro")
        .map_err(|error| io::Error::other(format!("the disk is damaged: {error}")))?;
    for at in ["dev", "proc", "sys"] {
        mount_move(format!("/{at}"), format!("{ROOT}/{at}"))?;
    }
    rustix::process::chdir(ROOT)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")?;
    Err(Command::new(PROGRAM).exec())
}

/// Mounts a file system of the kernel.
pub(crate) fn mount_kind(kind: &str, at: &str, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    let flags = if kind == "cgroup2" { MountFlags::empty() } else { MountFlags::NOSUID };
    mount(kind, at, kind, flags, &*options)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot mount {kind} at {at}: {error}")))
}
