//! QEMU, on Linux.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use codebox_core::{BoxFuture, Progress};
use tokio::net::UnixStream;

use crate::error::{Layer, VmError};
use crate::files::{MachineDir, end_of, remove};
use crate::image::VmImage;
use crate::program::find;
use crate::provider::{ByteStream, Provider, VmState};
use crate::spec::VmSpec;

mod args;
mod disk;
mod monitor;

use args::{Accelerator, arguments};

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
    dir: MachineDir,
}

impl Files {
    fn disk(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    /// Returns the kernel that the machine was made with: its modules are on the disk.
    fn kernel(&self) -> PathBuf {
        self.dir.path().join(VmImage::KERNEL)
    }

    fn initrd(&self) -> PathBuf {
        self.dir.path().join(VmImage::INITRD)
    }

    fn monitor(&self) -> PathBuf {
        self.dir.path().join("monitor.sock")
    }

    fn port(&self) -> PathBuf {
        self.dir.path().join("port.sock")
    }
}

impl Qemu {
    /// Returns the machine whose files are in this directory.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { files: Files { dir: MachineDir::new(dir) } }
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

    fn image_files(&self) -> &'static [&'static str] {
        &[VmImage::KERNEL, VmImage::INITRD, VmImage::ROOT]
    }

    fn ends_with_system(&self) -> bool {
        true
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
        let _lock = self.files.dir.lock().map_err(|error| failed("use its directory", &error))?;
        let disk = self.files.disk();
        if disk.exists() {
            return Ok(());
        }
        image.verify()?;
        progress.detail("making the disk of the virtual machine");
        for (name, file) in [(VmImage::KERNEL, self.files.kernel()), (VmImage::INITRD, self.files.initrd())] {
            fs::copy(image.file(name), file).map_err(|error| failed("copy its kernel", &error))?;
        }
        // The machine exists when it has its disk.
        disk::create(&image.file(VmImage::ROOT), &disk, u64::from(spec.disk) << 30, &mut |_| {})
            .map_err(|error| failed("make its disk", &error))
    }

    fn start(&self, _image: &VmImage, spec: &VmSpec) -> Result<(), VmError> {
        let program = program()?;
        let _lock = self.files.dir.lock().map_err(|error| failed("use its directory", &error))?;
        match self.state()? {
            VmState::Running => return Ok(()),
            VmState::Missing => {
                return Err(VmError::new(Layer::Vm, "it has not been made", "run codebox vm up"));
            }
            VmState::Stopped | VmState::Damaged(_) => {}
        }
        for file in [self.files.monitor(), self.files.port(), self.files.dir.log()] {
            let _ = fs::remove_file(file);
        }
        // A processor can offer KVM to this user and refuse to run a machine, as in some virtual machines.
        let has_kvm = File::options().read(true).write(true).open("/dev/kvm").is_ok();
        let with = |accelerator| self.run(&program, &arguments(spec, &self.files, accelerator));
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
        end_of(&self.files.dir.log())
    }

    fn delete(&self) -> Result<(), VmError> {
        let _lock = self.files.dir.lock().map_err(|error| failed("use its directory", &error))?;
        self.kill()?;
        let Files { dir } = &self.files;
        let (kernel, initrd) = (self.files.kernel(), self.files.initrd());
        for file in [self.files.monitor(), self.files.port(), dir.log(), self.files.disk(), kernel, initrd] {
            remove(&file).map_err(|error| failed("remove it", &error))?;
        }
        Ok(())
    }
}

/// Returns the program for machines with the processor of this one.
fn program() -> Result<PathBuf, VmError> {
    let name = format!("qemu-system-{}", std::env::consts::ARCH);
    find(&name, &[]).ok_or_else(|| {
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
    VmError::of_files(action, error)
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
