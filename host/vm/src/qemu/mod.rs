//! QEMU, on Linux.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use codebox_core::{BoxFuture, Progress};
use tokio::net::UnixStream;

use crate::error::{Layer, VmError};
use crate::image::VmImage;
use crate::provider::{ByteStream, Provider, VmState};
use crate::spec::VmSpec;

mod args;
mod disk;
mod monitor;

use args::{Accelerator, arguments};

/// Maximum length of the log that is read, in bytes from its end.
const MAX_LOG: u64 = 64 << 10;

/// Beginning of the line of a machine whose disk cannot be mounted.
const DAMAGED: &str = "codebox-vm: the disk is damaged";

/// Virtual machines of QEMU, which needs no rights of an administrator. With KVM where the processor offers it, and with translation of all
/// instructions otherwise.
#[derive(Debug, Clone)]
pub struct Qemu {
    files: Files,
}

/// Files of the machine.
#[derive(Debug, Clone)]
struct Files {
    dir: PathBuf,
}

impl Files {
    fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn disk(&self) -> PathBuf {
        self.dir.join("disk.img")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn monitor(&self) -> PathBuf {
        self.dir.join("monitor.sock")
    }

    fn port(&self) -> PathBuf {
        self.dir.join("port.sock")
    }

    /// Locks the machine against another process that starts or makes it.
    fn lock(&self) -> io::Result<File> {
        codebox_files::private_dir(&self.dir)?;
        let lock = File::options().write(true).create(true).truncate(false).open(self.dir.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }
}

impl Qemu {
    /// Returns the machine whose files are in this directory.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { files: Files::new(dir) }
    }

    fn run(&self, program: &Path, args: &[impl AsRef<OsStr>]) -> Result<(), VmError> {
        let output = Command::new(program).args(args).current_dir("/").stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed("start QEMU", &error))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gives no reason");
        let reason = format!("QEMU has ended with {}: {last}", output.status);
        Err(VmError::new(Layer::Hypervisor, reason, "see codebox doctor"))
    }
}

impl Provider for Qemu {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn probe(&self) -> Result<(), VmError> {
        program().map(|_| ())
    }

    fn state(&self) -> Result<VmState, VmError> {
        let running = monitor::is_running(&self.files.monitor()).map_err(|error| failed("reach QEMU", &error))?;
        if running {
            return Ok(VmState::Running);
        }
        if !self.files.disk().exists() {
            return Ok(VmState::Missing);
        }
        let log = self.log();
        Ok(match log.lines().find_map(|line| line.trim().strip_prefix(DAMAGED)) {
            Some(reason) => VmState::Damaged(format!("the disk is damaged{reason}")),
            None => VmState::Stopped,
        })
    }

    fn create(&self, image: &VmImage, spec: &VmSpec, progress: &dyn Progress) -> Result<(), VmError> {
        let _lock = self.files.lock().map_err(|error| failed("use its directory", &error))?;
        let disk = self.files.disk();
        if disk.exists() {
            return Ok(());
        }
        image.verify().map_err(|error| VmError::new(Layer::Image, error, "fetch it again with codebox vm reset"))?;
        progress.detail("making the disk of the virtual machine");
        disk::create(&image.file(VmImage::ROOT), &disk, u64::from(spec.disk) << 30, &mut |_| {})
            .map_err(|error| failed("make its disk", &error))
    }

    fn start(&self, image: &VmImage, spec: &VmSpec) -> Result<(), VmError> {
        let program = program()?;
        let _lock = self.files.lock().map_err(|error| failed("use its directory", &error))?;
        match self.state()? {
            VmState::Running => return Ok(()),
            VmState::Missing => {
                return Err(VmError::new(Layer::Vm, "it has not been made", "run codebox vm up"));
            }
            VmState::Stopped | VmState::Damaged(_) => {}
        }
        for file in [self.files.monitor(), self.files.port(), self.files.log()] {
            let _ = fs::remove_file(file);
        }
        // A processor can offer KVM to this user and refuse to run a machine, as in some virtual machines.
        let has_kvm = File::options().read(true).write(true).open("/dev/kvm").is_ok();
        let with = |accelerator| self.run(&program, &arguments(image, spec, &self.files, accelerator));
        if has_kvm && with(Accelerator::Kvm).is_ok() {
            return Ok(());
        }
        with(Accelerator::Translation)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, VmError>> {
        Box::pin(async {
            let stream = UnixStream::connect(self.files.port()).await;
            let stream = stream.map_err(|error| {
                let reason = format!("cannot reach its port: {error}");
                VmError::new(Layer::Network, reason, "start it with codebox vm up")
            })?;
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }

    fn kill(&self) -> Result<(), VmError> {
        monitor::kill(&self.files.monitor()).map_err(|error| failed("end QEMU", &error))
    }

    fn log(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            use std::io::{Read as _, Seek as _, SeekFrom};
            let mut file = File::open(self.files.log())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
            let mut text = Vec::new();
            file.take(MAX_LOG).read_to_end(&mut text)?;
            Ok(text)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }

    fn delete(&self) -> Result<(), VmError> {
        let _lock = self.files.lock().map_err(|error| failed("use its directory", &error))?;
        self.kill()?;
        for file in [self.files.monitor(), self.files.port(), self.files.log(), self.files.disk()] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove it", &error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the program for machines with the processor of this one.
fn program() -> Result<PathBuf, VmError> {
    let name = format!("qemu-system-{}", std::env::consts::ARCH);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(&name));
    found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        VmError::new(Layer::Hypervisor, format!("{name} is not installed"), install_command(&release))
    })
}

/// Returns the command that installs QEMU on the distribution with this description.
fn install_command(release: &str) -> String {
    let of = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let names = format!("{} {}", of("ID"), of("ID_LIKE"));
    let command = names.split_whitespace().find_map(|name| match name {
        "debian" | "ubuntu" => Some("apt-get install --no-install-recommends qemu-system-x86"),
        "fedora" | "rhel" | "centos" => Some("dnf install qemu-system-x86-core"),
        "arch" => Some("pacman -S qemu-base"),
        "alpine" => Some("apk add qemu-system-x86_64"),
        "suse" | "opensuse" => Some("zypper install qemu-x86"),
        _ => None,
    });
    command.map_or_else(|| "install QEMU".to_owned(), |command| format!("install it: {command}"))
}

fn failed(action: &str, error: &io::Error) -> VmError {
    let fix = match error.kind() {
        io::ErrorKind::StorageFull => "free disk space",
        _ => "see codebox doctor",
    };
    VmError::new(Layer::Vm, format!("cannot {action}: {error}"), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_distribution() {
        for (release, expected) in [
            ("ID=debian\nVERSION_ID=\"12\"\n", "apt-get"),
            ("ID=\"linuxmint\"\nID_LIKE=\"ubuntu debian\"\n", "apt-get"),
            ("ID=rocky\nID_LIKE=\"rhel centos fedora\"\n", "dnf"),
            ("ID=arch\n", "pacman"),
            ("", "install QEMU"),
        ] {
            assert!(install_command(release).contains(expected), "{release}");
        }
    }

    #[test]
    fn a_machine_that_was_not_made_is_missing() {
        let dir = tempfile::tempdir().expect("a directory");
        let qemu = Qemu::new(dir.path().join("vm"));
        assert_eq!(qemu.state(), Ok(VmState::Missing));
        assert_eq!(qemu.kill(), Ok(()));
        fs::create_dir_all(dir.path().join("vm")).expect("a directory");
        fs::write(dir.path().join("vm/disk.img"), "").expect("it is ours");
        assert_eq!(qemu.state(), Ok(VmState::Stopped));
        fs::write(dir.path().join("vm/log"), "x\ncodebox-vm: the disk is damaged: bad superblock\n")
            .expect("it is ours");
        let VmState::Damaged(reason) = qemu.state().expect("a state") else { panic!("{:?}", qemu.state()) };
        assert_eq!(reason, "the disk is damaged: bad superblock");
        qemu.delete().expect("it is removed");
        assert_eq!(qemu.state(), Ok(VmState::Missing));
    }
}
