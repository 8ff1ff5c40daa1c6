//! Programs that the engine starts in a running container.

use std::pin::Pin;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::{Stream, StreamExt as _};
use tokio::io::AsyncWrite;
use tokio::time::{sleep, timeout};

use crate::engine::{CALL_TIMEOUT, CREATE_TIMEOUT};
use crate::error::ContainerError;

/// Maximum size of the output of a short program in bytes.
const MAX_OUTPUT_SIZE: usize = 1 << 20;

/// Program to start.
#[derive(Debug, Clone, Default)]
pub(super) struct Exec<'e> {
    pub words: Vec<String>,
    /// User by name or number; `None` for that of the container.
    pub user: Option<&'e str>,
    pub cwd: Option<&'e str>,
    pub env: Vec<String>,
    pub has_stdin: bool,
}

/// Streams of a program that has been started.
pub(super) struct Started {
    /// Id, by which the engine knows the program.
    pub id: String,
    pub output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// Starts a program.
pub(super) async fn start(client: &Docker, container: &str, exec: &Exec<'_>) -> Result<Started, ContainerError> {
    const OPERATION: &str = "start a program in a container";
    let options = CreateExecOptions {
        attach_stdin: Some(exec.has_stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(exec.words.clone()),
        env: (!exec.env.is_empty()).then(|| exec.env.clone()),
        user: exec.user.map(str::to_owned),
        working_dir: exec.cwd.map(str::to_owned),
        ..CreateExecOptions::default()
    };
    let starting = async {
        let created = client.create_exec(container, options).await?;
        let started = client.start_exec(&created.id, None::<StartExecOptions>).await?;
        Ok((created.id, started))
    };
    let started = timeout(CREATE_TIMEOUT, starting).await;
    let started = started.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })?;
    match started.map_err(ContainerError::call(OPERATION))? {
        (id, StartExecResults::Attached { output, input }) => Ok(Started { id, output, input }),
        (_, StartExecResults::Detached) => {
            Err(ContainerError::Lost { doing: OPERATION, source: "the engine forwards no streams".into() })
        }
    }
}

/// Runs a short program, and returns its status and its standard output, or its standard error if it failed.
pub(super) async fn run(client: &Docker, container: &str, exec: &Exec<'_>) -> Result<(i64, Vec<u8>), ContainerError> {
    const OPERATION: &str = "run a program in a container";
    let mut started = start(client, container, exec).await?;
    let reading = async {
        let [mut stdout, mut stderr] = [Vec::new(), Vec::new()];
        while let Some(chunk) = started.output.next().await {
            let (to, bytes) = match chunk.map_err(ContainerError::call(OPERATION))? {
                LogOutput::StdErr { message } => (&mut stderr, message),
                LogOutput::StdOut { message } | LogOutput::Console { message } => (&mut stdout, message),
                LogOutput::StdIn { .. } => continue,
            };
            to.extend(bytes.iter().take(MAX_OUTPUT_SIZE - to.len().min(MAX_OUTPUT_SIZE)));
        }
        Ok([stdout, stderr])
    };
    let read = timeout(2 * CALL_TIMEOUT, reading).await;
    let [stdout, stderr] = read.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })??;
    let status = status(client, &started.id).await?;
    Ok((status, if status == 0 { stdout } else { stderr }))
}

/// Returns the exit status of a program whose output has ended.
pub(super) async fn status(client: &Docker, exec: &str) -> Result<i64, ContainerError> {
    const OPERATION: &str = "read the exit status of a program";
    let waiting = async {
        loop {
            let state = client.inspect_exec(exec).await.map_err(ContainerError::call(OPERATION))?;
            match state.exit_code {
                Some(code) if state.running != Some(true) => return Ok(code),
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let waited = timeout(CALL_TIMEOUT, waiting).await;
    waited.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })?
}

/// A file for a container.
pub(super) struct ContainerFile<'f> {
    /// Path without a slash at its beginning.
    pub path: String,
    pub content: &'f [u8],
    pub is_program: bool,
}

/// Copies files into a container, with root as their owner. Directories above them are made.
pub(super) async fn copy(client: &Docker, container: &str, files: &[ContainerFile<'_>]) -> Result<(), ContainerError> {
    const OPERATION: &str = "copy files into a container";
    let archive = archive(files).map_err(|error| ContainerError::Lost { doing: OPERATION, source: error.into() })?;
    let options = UploadToContainerOptionsBuilder::default().path("/").build();
    let copied = client.upload_to_container(container, Some(options), bollard::body_full(archive.into()));
    let copied = timeout(CREATE_TIMEOUT, copied).await;
    let copied = copied.map_err(|late| ContainerError::Lost { doing: OPERATION, source: Box::new(late) })?;
    copied.map_err(ContainerError::call(OPERATION))
}

fn archive(files: &[ContainerFile<'_>]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut dirs = std::collections::BTreeSet::new();
    for file in files {
        let above = file.path.match_indices('/').map(|(at, _)| &file.path[..at]);
        for dir in above.filter(|dir| dirs.insert((*dir).to_owned())).collect::<Vec<_>>() {
            let mut header = header(0o755, 0);
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, format!("{dir}/"), std::io::empty())?;
        }
        let mut header = header(if file.is_program { 0o755 } else { 0o644 }, file.content.len() as u64);
        archive.append_data(&mut header, &file.path, file.content)?;
    }
    archive.into_inner()
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
