//! Lima, on macOS.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_core::{BoxFuture, Progress};

use crate::error::{Layer, VmError};
use crate::files::{MachineDir, end_of};
use crate::image::VmImage;
use crate::program::{Ended, Program, find};
use crate::provider::{ByteStream, Provider, VmState};
use crate::spec::VmSpec;

mod output;
mod template;

use output::{Version, failure, listed};
use template::template;

/// Name of the machine in its directory of Lima.
const NAME: &str = "codebox";

/// Lowest version of Lima.
const MIN_VERSION: Version = Version(1, 0);

/// Directories of Homebrew, which are missing in the search path of programs that no shell has started.
const DIRS: [&str; 2] = ["/opt/homebrew/bin", "/usr/local/bin"];

/// Maximum length of the directory of Lima and the name: longer ones do not fit into the path of a socket.
const MAX_HOME: usize = 77 - NAME.len() - 1;

/// Time for a call that reads or removes something. Lima waits three seconds for each machine that does not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for a call that fetches an image of Debian.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Time for the first start, which installs Podman.
const START_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// The same time for Lima, which says what is missing if it ends first.
const LIMA_START_TIMEOUT: &str = "--timeout=15m";

/// Program of the machine.
const GUEST: &str = "/usr/local/lib/codebox/vm-guest";

/// Virtual machines of Lima. Each has an own directory of Lima, which nothing of the user's other machines can change.
#[derive(Debug, Clone)]
pub struct Lima {
    dir: MachineDir,
    /// Programs in place of those that are installed.
    programs: Option<PathBuf>,
}

impl Lima {
    /// Returns the machine whose files are in this directory.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir: MachineDir::new(dir), programs: None }
    }

    /// Uses the programs `limactl` and `ssh` of a directory.
    #[must_use]
    pub fn with_programs(self, dir: PathBuf) -> Self {
        Self { programs: Some(dir), ..self }
    }

    /// Returns the directory of Lima.
    fn home(&self) -> PathBuf {
        self.dir.path().join("lima")
    }

    fn instance(&self) -> PathBuf {
        self.home().join(NAME)
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        match &self.programs {
            Some(dir) => Some(dir.join(name)).filter(|file| file.is_file()),
            None => find(name, &DIRS),
        }
    }

    fn program(&self, name: &'static str) -> Result<Program, VmError> {
        let path = self.file(name).ok_or_else(|| {
            VmError::new(Layer::Hypervisor, format!("{name} is not installed"), "install it: brew install lima")
        })?;
        let home = self.home();
        codebox_files::private_dir(&home).map_err(|error| failed("use its directory", &error))?;
        // A link in the path would count with its target.
        let dir = home.canonicalize().map_err(|error| failed("use its directory", &error))?;
        if dir.as_os_str().len() > MAX_HOME {
            let reason = format!("{} has more than {MAX_HOME} bytes, the maximum of Lima", dir.display());
            return Err(VmError::new(Layer::Hypervisor, reason, "set CODEBOX_HOME to a shorter path"));
        }
        Ok(Program { name, path, env: vec![("LIMA_HOME", dir.clone().into())], dir })
    }

    fn call(&self, args: &[&str], input: Option<Vec<u8>>, limit: Duration) -> Result<Ended, VmError> {
        let args = [&["--log-format=json", "--tty=false"], args].concat();
        self.program("limactl")?.call(&args, input, limit)
    }

    fn done(&self, args: &[&str], limit: Duration) -> Result<Ended, VmError> {
        let ended = self.call(args, None, limit)?;
        if ended.status == Some(0) { Ok(ended) } else { Err(failure(&ended)) }
    }

    fn exists(&self) -> bool {
        self.instance().exists()
    }

    /// Returns the state as Lima sees it, under a lock or without one.
    fn listed_state(&self) -> Result<VmState, VmError> {
        // The start of a missing machine makes one of Ubuntu, and that of a machine without a disk makes a new disk.
        if !self.exists() {
            return Ok(VmState::Missing);
        }
        let format = "--format={{.Status}}{{range .Errors}}\n{{.}}{{end}}";
        let ended = self.done(&["list", format, NAME], CALL_TIMEOUT)?;
        let state = listed(&String::from_utf8_lossy(&ended.stdout));
        let has_disk = ["disk", "diffdisk"].iter().any(|name| self.instance().join(name).exists());
        Ok(match state {
            VmState::Stopped if !has_disk => VmState::Damaged("its disk is missing".to_owned()),
            state => state,
        })
    }

    /// Copies the program of the machine to it, unless it has it.
    fn put_program(&self, image: &VmImage) -> Result<(), VmError> {
        let digest = image.digest_of(VmImage::GUEST).unwrap_or_default();
        let shell = ["shell", "--workdir", "/", NAME, "sudo", "-n"];
        let has = self.call(&[&shell[..], &["sha256sum", GUEST]].concat(), None, CALL_TIMEOUT)?;
        if has.status == Some(0) && String::from_utf8_lossy(&has.stdout).starts_with(digest) {
            return Ok(());
        }
        let content = fs::read(image.file(VmImage::GUEST)).map_err(|error| failed("read its program", &error))?;
        let script = format!(
            "mkdir -p {dir} && cat > {GUEST}.new && chmod 755 {GUEST}.new && mv {GUEST}.new {GUEST}",
            dir = Path::new(GUEST).parent().unwrap_or_else(|| Path::new("/")).display(),
        );
        let put = self.call(&[&shell[..], &["sh", "-c", &script]].concat(), Some(content), CALL_TIMEOUT)?;
        if put.status == Some(0) { Ok(()) } else { Err(failure(&put)) }
    }
}

impl Provider for Lima {
    fn name(&self) -> &'static str {
        "lima"
    }

    fn image_files(&self) -> &'static [&'static str] {
        &[VmImage::GUEST]
    }

    fn probe(&self) -> Result<(), VmError> {
        let ended = self.program("limactl")?.call(&["--version"], None, CALL_TIMEOUT)?;
        if ended.status != Some(0) {
            return Err(failure(&ended));
        }
        let text = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        match Version::of(&text) {
            Some(version) if version < MIN_VERSION => {
                let reason = format!("{text} is older than {MIN_VERSION}");
                Err(VmError::new(Layer::Hypervisor, reason, "update it: brew upgrade lima"))
            }
            // A build from its sources has no number.
            _ => Ok(()),
        }
    }

    fn state(&self) -> Result<VmState, VmError> {
        self.listed_state()
    }

    fn create(&self, image: &VmImage, spec: &VmSpec, progress: &dyn Progress) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        if self.exists() {
            return Ok(());
        }
        image.verify()?;
        let file = self.dir.path().join("codebox.yaml");
        fs::write(&file, template(spec)).map_err(|error| failed("write its description", &error))?;
        let file = file.to_str().ok_or_else(|| failed("use its directory", &io::ErrorKind::InvalidFilename.into()))?;
        progress.detail("fetching Debian for the virtual machine");
        self.done(&["create", "--name=codebox", file], CREATE_TIMEOUT).map(drop).inspect_err(|_| {
            // A download that fails leaves a machine without a disk.
            let _ = self.call(&["delete", "--force", NAME], None, CALL_TIMEOUT);
        })
    }

    fn start(&self, image: &VmImage, _spec: &VmSpec) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        let list = ["list", "--format={{.Status}}", NAME];
        match self.listed_state()? {
            VmState::Missing => return Err(VmError::new(Layer::Vm, "it has not been made", "run codebox vm up")),
            VmState::Damaged(reason) => {
                return Err(VmError::new(Layer::Vm, reason, "remove it with codebox vm reset"));
            }
            VmState::Running => {}
            VmState::Stopped => {
                let ended = self.done(&list, CALL_TIMEOUT)?;
                // Half of the machine has been killed, and Lima starts it only when the other half is gone.
                if ended.stdout.starts_with(b"Broken") {
                    self.done(&["stop", "--force", NAME], CALL_TIMEOUT)?;
                }
                self.done(&["start", LIMA_START_TIMEOUT, NAME], START_TIMEOUT)?;
            }
        }
        self.put_program(image)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, VmError>> {
        Box::pin(async {
            let config = self.instance().join("ssh.config");
            let config = config.to_string_lossy();
            // A connection of its own: the machine's other sessions end with the process of Lima that keeps it.
            let options = [
                "ControlMaster=no",
                "ControlPath=none",
                "ControlPersist=no",
                "LogLevel=ERROR",
                "ServerAliveInterval=15",
                "ServerAliveCountMax=3",
                "ConnectTimeout=15",
            ];
            let mut args = vec!["-F", &*config, "-T"];
            args.extend(options.iter().flat_map(|option| ["-o", *option]));
            let serve = format!("exec sudo -n {GUEST} serve");
            args.extend(["lima-codebox", "--", &serve]);
            self.program("ssh")?.stream(&args, &self.dir.log())
        })
    }

    fn kill(&self) -> Result<(), VmError> {
        match self.exists() {
            true => self.done(&["stop", "--force", NAME], CALL_TIMEOUT).map(drop),
            false => Ok(()),
        }
    }

    fn log(&self) -> String {
        let files = ["ha.stderr.log", "serial.log", "serialv.log"].map(|name| self.instance().join(name));
        files.iter().chain([&self.dir.log()]).map(|file| end_of(file)).collect()
    }

    fn delete(&self) -> Result<(), VmError> {
        let _lock = self.dir.lock().map_err(|error| failed("use its directory", &error))?;
        if self.exists() {
            self.done(&["delete", "--force", NAME], CALL_TIMEOUT)?;
        }
        // A machine without a description leaves its directory.
        match fs::remove_dir_all(self.instance()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove it", &error)),
            _ => Ok(()),
        }
    }
}

fn failed(action: &str, error: &io::Error) -> VmError {
    VmError::of_files(action, error)
}
