//! The official program.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use codebox_core::mask_secrets;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::error::DevContainerError;
use crate::find::DevContainer;
use crate::powers::Description;

/// Name of the program.
const PROGRAM: &str = "devcontainer";

/// Variables that the program, and the engine's own program, need. A description can pass on each of them to the container.
const VARIABLES: [&str; 22] = [
    "PATH",
    "HOME",
    "USERPROFILE",
    "SYSTEMROOT",
    "APPDATA",
    "LOCALAPPDATA",
    "TMPDIR",
    "TEMP",
    "TMP",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "NODE_PATH",
];

/// Maximum time of a call. The first start of a container builds its image and runs the commands of the project.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Maximum size of the answer of the program in bytes.
const MAX_ANSWER_SIZE: u64 = 4 << 20;

/// Maximum length of a line of its log in bytes.
const MAX_LINE: usize = 500;

/// Maximum length of its message in characters.
const MAX_MESSAGE: usize = 1_000;

/// Running dev container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Id of the container.
    pub container_id: String,
    /// User of programs.
    pub user: Option<String>,
    /// Working directory of programs.
    pub workspace_folder: Option<String>,
    /// Variables of programs.
    pub env: BTreeMap<String, String>,
}

impl DevContainer {
    /// Reads the description with its settings from the image, without starting the container. `engine` is `docker` or `podman`.
    ///
    /// # Errors
    /// Returns an error if the program is missing or fails.
    pub async fn read(
        &self,
        engine: &str,
        log: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Description, DevContainerError> {
        let answer = self.call(READ, "read the description", engine, log).await?;
        Ok(Description::read(&answer, self))
    }

    /// Brings the container up: builds its image, creates and starts it, and runs its commands, as far as this has not been done
    /// before. Log lines of the program are passed to `log`.
    ///
    /// # Errors
    /// Returns an error if the program is missing or fails.
    pub async fn up(&self, engine: &str, log: &mut (dyn FnMut(&str) + Send)) -> Result<Environment, DevContainerError> {
        let answer = self.call("up", "bring up the dev container", engine, log).await?;
        let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let container_id = text("containerId")
            .ok_or_else(|| DevContainerError::Program("its answer names no container".to_owned()))?;
        let env = answer["mergedConfiguration"]["remoteEnv"].as_object();
        let env =
            env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Ok(Environment {
            container_id,
            user: text("remoteUser"),
            workspace_folder: text("remoteWorkspaceFolder"),
            env: env.collect(),
        })
    }

    /// Waits until no other process of codebox calls the program for this project: each of two at once would make a container.
    async fn lock(&self) -> std::io::Result<std::fs::File> {
        let file = std::fs::File::open(&self.config)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
                Err(std::fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    async fn call(
        &self,
        command: &str,
        action: &'static str,
        engine: &str,
        log: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Value, DevContainerError> {
        let failed = |error: std::io::Error| DevContainerError::Program(error.to_string());
        let is_read = command == READ;
        let _lock = self.lock().await.map_err(failed)?;
        let program = program().ok_or_else(|| DevContainerError::NotInstalled { dir: self.workspace.clone() })?;
        let mut copy = NamedTempFile::with_suffix(".json").map_err(failed)?;
        copy.write_all(self.text.as_bytes()).map_err(failed)?;
        let mut started = Command::new(program);
        started
            .arg(command)
            .arg("--workspace-folder")
            .arg(&self.workspace)
            .arg("--config")
            .arg(&self.config)
            .arg("--override-config")
            .arg(copy.path())
            .args(["--docker-path", engine, "--include-merged-configuration", "--mount-workspace-git-root", "false"])
            // Without it, the program does not say why a description cannot be read.
            .args(["--log-level", if is_read { "debug" } else { "info" }])
            .env_clear()
            .envs(VARIABLES.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // The program starts others, which end with it if the run is cancelled.
        #[cfg(unix)]
        started.process_group(0);
        let mut child = started.spawn().map_err(failed)?;
        let group = ProcessGroup(child.id());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut answer = Vec::new();
        let mut reason = None;
        let reading = async {
            if let Some(stdout) = stdout {
                stdout.take(MAX_ANSWER_SIZE).read_to_end(&mut answer).await?;
            }
            Ok(())
        };
        let logging = async {
            let mut lines = BufReader::new(stderr.ok_or(std::io::ErrorKind::BrokenPipe)?);
            let mut line = Vec::new();
            loop {
                line.clear();
                if (&mut lines).take(MAX_LINE as u64).read_until(b'\n', &mut line).await? == 0 {
                    return Ok::<(), std::io::Error>(());
                }
                let line = in_one_line(&String::from_utf8_lossy(&line));
                if let Some((_, error)) = line.split_once("] Error: ") {
                    reason = Some(error.to_owned());
                }
                if !is_read {
                    log(&line);
                }
            }
        };
        let ended = async { tokio::join!(reading, logging) };
        let (read, logged) = tokio::time::timeout(TIMEOUT, ended).await.map_err(|_| DevContainerError::Failed {
            action,
            message: format!("it has not ended after {} minutes", TIMEOUT.as_secs() / 60),
        })?;
        read.map_err(failed)?;
        logged.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        group.has_ended();
        // The last line is the answer; lines before it are warnings.
        let text = String::from_utf8_lossy(&answer);
        let answer = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        match answer {
            Some(answer) if status.success() && answer["outcome"] != "error" => Ok(answer),
            Some(answer) => {
                let parts = [&answer["message"], &answer["description"]];
                let parts: Vec<&str> = parts.into_iter().filter_map(Value::as_str).collect();
                Err(DevContainerError::Failed { action, message: in_one_line(&parts.join(": ")) })
            }
            None => {
                let message = reason.unwrap_or_else(|| format!("it ended with {status} without an answer"));
                Err(DevContainerError::Failed { action, message })
            }
        }
    }
}

/// Command that reads a description.
const READ: &str = "read-configuration";

/// Interval at which a lock is tried.
const LOCK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// Time for a program to end by itself when it is terminated.
#[cfg(unix)]
const END_TIME: std::time::Duration = std::time::Duration::from_secs(3);

/// Process group of a program, which is terminated on drop.
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// Leaves the processes that a program has left behind.
    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
            use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

            // Podman and Docker then end their builds in order.
            let _ = kill_process_group(group, Signal::TERM);
            // The program waits for its children, and Podman loses a signal that comes before its command has started.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let until = std::time::Instant::now() + END_TIME;
            while matches!(waitid(WaitId::Pid(group), options), Ok(None)) {
                if std::time::Instant::now() > until {
                    let _ = kill_process_group(group, Signal::KILL);
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

/// Returns a text without control characters, which comes from the project or from programs of the container.
fn in_one_line(text: &str) -> String {
    let text = mask_secrets(text, &[]);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect();
    text.trim().to_owned()
}

/// Returns the program in the search path. The directory of the project is never searched.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names: &[&str] = if cfg!(windows) { &["devcontainer.cmd", "devcontainer.exe"] } else { &[PROGRAM] };
    let dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.flat_map(|dir| names.iter().map(move |name| dir.join(name))).find(|file| is_program(file))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}
