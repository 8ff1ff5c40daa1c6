//! The Windows Subsystem for Linux, version 2.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use codebox_core::{BoxFuture, Progress};
use sha2::{Digest as _, Sha256};

use crate::error::{Layer, VmError};
use crate::files::{MachineDir, end_of, remove};
use crate::image::VmImage;
use crate::program::{Ended, Program, find};
use crate::provider::{ByteStream, Provider, VmState};
use crate::spec::VmSpec;

mod drive;
mod output;

pub use drive::{DriveError, DriveMount};
use output::{Answer, first_number, is_passing};

/// Program of the machine.
const GUEST: &str = "/usr/lib/codebox/vm-guest";

/// Time for a call. Windows Subsystem for Linux can hang after this machine has slept.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the unpacking of the image.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Number of calls in place of one that a restart of the service has ended.
const ATTEMPTS: u32 = 3;

/// Pause before the second one.
const PAUSE: Duration = Duration::from_millis(500);

/// Exit status of the program that Windows has in place of a missing subsystem.
const NOT_INSTALLED: i32 = 50;

/// Exit status if the kernel is missing.
const NO_KERNEL: i32 = -444;

/// Remedy for a subsystem that is missing or incomplete.
const INSTALL: &str = "run wsl.exe --install --no-distribution as an administrator, and restart Windows";

/// Distributions of the Windows Subsystem for Linux. All of them share one virtual machine of the user, whose memory and processors
/// `.wslconfig` limits; those of a [`VmSpec`] have no effect.
#[derive(Debug, Clone)]
pub struct Wsl {
    dir: MachineDir,
    /// Program in place of the one that is installed.
    program: Option<PathBuf>,
}

impl Wsl {
    /// Returns the machine whose files are in this directory.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir: MachineDir::new(dir), program: None }
    }

    /// Uses this program in place of `wsl.exe`.
    #[must_use]
    pub fn with_program(self, file: PathBuf) -> Self {
        Self { program: Some(file), ..self }
    }

    /// Returns the name of the distribution. Names belong to a user of Windows, so that it depends on the directory.
    fn distribution(&self) -> String {
        let digest = Sha256::digest(self.dir.path().as_os_str().as_encoded_bytes());
        format!("codebox-{}", codebox_files::hex(&digest[..4]))
    }

    fn disk_dir(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn program(&self) -> Result<Program, VmError> {
        let missing = || VmError::new(Layer::Hypervisor, "wsl.exe is missing", INSTALL);
        let path = self.program.clone().or_else(|| find("wsl.exe", &[])).ok_or_else(missing)?;
        codebox_files::private_dir(self.dir.path()).map_err(|error| failed("use its directory", &error))?;
        let set = |name| (name, OsString::from("1"));
        let env = vec![set("WSL_UTF8"), set("WSL_DISABLE_WARNINGS")];
        Ok(Program { name: "wsl.exe", path, env, dir: self.dir.path().to_owned() })
    }

    fn call(&self, args: &[&str], limit: Duration) -> Result<Ended, VmError> {
        self.program()?.call(args, None, limit)
    }

    /// Calls the program, again if the service was restarted under a call. For calls that may be repeated.
    fn ask(&self, args: &[&str]) -> Result<Ended, VmError> {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            let ended = self.call(args, CALL_TIMEOUT)?;
            if !is_passing(&ended) {
                return Ok(ended);
            }
            sleep(pause);
            pause *= 2;
        }
        self.call(args, CALL_TIMEOUT)
    }

    /// Returns the names of distributions.
    fn list(&self, options: &[&str]) -> Result<Vec<String>, VmError> {
        let ended = self.ask(&[&["--list", "--quiet"], options].concat())?;
        let answer = Answer::of(&ended);
        // Without any distribution, older versions fail.
        if ended.status == Some(0) || answer.has_code("WSL_E_DEFAULT_DISTRO_NOT_FOUND") {
            let names = if ended.status == Some(0) { answer.lines() } else { Vec::new() };
            return Ok(names);
        }
        Err(answer.failure(&ended))
    }

    fn has(&self, options: &[&str]) -> Result<bool, VmError> {
        let name = self.distribution();
        Ok(self.list(options)?.iter().any(|one| one.eq_ignore_ascii_case(&name)))
    }

    fn in_machine<'a>(name: &'a str, words: &[&'a str]) -> Vec<&'a str> {
        [&["--distribution", name, "--user", "root", "--cd", "/", "--exec"], words].concat()
    }
}

impl Provider for Wsl {
    fn name(&self) -> &'static str {
        "wsl"
    }

    fn image_files(&self) -> &'static [&'static str] {
        &[VmImage::ARCHIVE]
    }

    fn probe(&self) -> Result<(), VmError> {
        let ended = self.ask(&["--status"])?;
        match ended.status {
            Some(0) => {}
            Some(NOT_INSTALLED) => {
                return Err(VmError::new(Layer::Hypervisor, "WSL is not installed", INSTALL));
            }
            Some(NO_KERNEL) => {
                return Err(VmError::new(Layer::Hypervisor, "the kernel of WSL is missing", "run wsl.exe --update"));
            }
            _ => return Err(Answer::of(&ended).failure(&ended)),
        }
        let ended = self.ask(&["--version"])?;
        let version = Answer::of(&ended).lines().first().and_then(|line| first_number(line));
        // The version that is a part of Windows does not know the option.
        match version.filter(|_| ended.status == Some(0)) {
            Some(version) if version >= 2 => Ok(()),
            _ => Err(VmError::new(Layer::Hypervisor, "WSL is older than 2.0", "run wsl.exe --update")),
        }
    }

    fn state(&self) -> Result<VmState, VmError> {
        if self.has(&["--running"])? {
            return Ok(VmState::Running);
        }
        if self.has(&[])? {
            return Ok(VmState::Stopped);
        }
        Ok(match self.has(&["--all"])? {
            true => VmState::Damaged("its installation was interrupted".to_owned()),
            false => VmState::Missing,
        })
    }

    fn create(&self, image: &VmImage, _spec: &VmSpec, progress: &dyn Progress) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        let name = self.distribution();
        match self.state()? {
            VmState::Missing => {}
            VmState::Damaged(_) => {
                self.call(&["--unregister", &name], CALL_TIMEOUT)?;
            }
            VmState::Stopped | VmState::Running => return Ok(()),
        }
        image.verify()?;
        let dir = self.disk_dir();
        codebox_files::private_dir(&dir).map_err(|error| failed("make its directory", &error))?;
        // The disk of a distribution that is not registered any more.
        remove(&dir.join("ext4.vhdx")).map_err(|error| failed("remove its earlier disk", &error))?;
        let archive = image.file(VmImage::ARCHIVE);
        let invalid = || failed("use its directory", &io::ErrorKind::InvalidFilename.into());
        let (dir, archive) = (dir.to_str().ok_or_else(invalid)?, archive.to_str().ok_or_else(invalid)?);
        progress.detail("making the disk of the virtual machine");
        let ended = self.call(&["--import", &name, dir, archive, "--version", "2"], IMPORT_TIMEOUT);
        let made = ended.and_then(|ended| match ended.status {
            Some(0) => Ok(()),
            _ => Err(Answer::of(&ended).failure(&ended)),
        });
        made.inspect_err(|_| {
            let _ = self.call(&["--unregister", &name], CALL_TIMEOUT);
        })
    }

    fn start(&self, _image: &VmImage, _spec: &VmSpec) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        let name = self.distribution();
        let _ = remove(&self.dir.log());
        let ended = self.ask(&Self::in_machine(&name, &[GUEST, "check"]))?;
        if ended.status == Some(0) {
            return Ok(());
        }
        let answer = Answer::of(&ended);
        if answer.has_code("WSL_E_DISTRO_NOT_FOUND") {
            return Err(VmError::new(Layer::Vm, "it has not been made", "run codebox vm up"));
        }
        Err(answer.failure(&ended))
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, VmError>> {
        Box::pin(async {
            let name = self.distribution();
            self.program()?.stream(&Self::in_machine(&name, &[GUEST, "serve"]), &self.dir.log())
        })
    }

    fn kill(&self) -> Result<(), VmError> {
        let name = self.distribution();
        let ended = self.ask(&["--terminate", &name])?;
        let answer = Answer::of(&ended);
        match ended.status == Some(0) || answer.has_code("WSL_E_DISTRO_NOT_FOUND") {
            true => Ok(()),
            false => Err(answer.failure(&ended)),
        }
    }

    fn log(&self) -> String {
        end_of(&self.dir.log())
    }

    fn delete(&self) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        let name = self.distribution();
        let ended = self.ask(&["--unregister", &name])?;
        let answer = Answer::of(&ended);
        if ended.status != Some(0) && !answer.has_code("WSL_E_DISTRO_NOT_FOUND") {
            return Err(answer.failure(&ended));
        }
        match fs::remove_dir_all(self.disk_dir()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove it", &error)),
            _ => Ok(()),
        }
    }
}

fn failed(action: &str, error: &io::Error) -> VmError {
    VmError::of_files(action, error)
}
