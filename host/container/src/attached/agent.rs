//! The agent in a running container.

use std::path::Path;

use bollard::Docker;
use codebox_agent::identity::{DIR_PREFIX, Identity, PROGRAM};
use codebox_agent::{Event, PROTOCOL_VERSION};
use codebox_core::Attachment;
use tokio::time::timeout;

use super::exec::{self, ContainerFile, Exec};
use crate::agent_connection::AgentConnection;
use crate::engine::{CREATE_TIMEOUT, Engine};
use crate::error::{ContainerError, one_line};

/// Directory of the agent and of a job's files in a container. The agent removes it at its end if it runs as root, and this process
/// otherwise.
pub(super) struct AgentDir {
    client: Docker,
    container: String,
    /// Absolute path.
    pub path: String,
    pub connection: AgentConnection,
    /// Environment that the engine gives to programs.
    pub env: Vec<(String, String)>,
    /// True if a job can end the agent, because both have the same user.
    pub is_exposed: bool,
    removes_itself: bool,
}

impl AgentDir {
    /// Copies the agent into the container and starts it.
    ///
    /// # Errors
    /// Returns an error if it cannot run there. Nothing is left in the container.
    pub(super) async fn open(engine: &Engine, attachment: &Attachment, program: &Path) -> Result<Self, ContainerError> {
        let (client, container) = (engine.client.clone(), attachment.container.id.clone());
        let content = std::fs::read(program).map_err(ContainerError::io("read", program))?;
        let dir = format!("{DIR_PREFIX}{:016x}", rand::random::<u64>());
        let file = ContainerFile { path: format!("{dir}/{PROGRAM}"), content: &content, is_program: true };
        exec::copy(&client, &container, &[file]).await?;
        let path = format!("/{dir}");
        match start(&client, &container, &path, attachment.user.as_deref()).await {
            Ok((connection, env, is_exposed, removes_itself)) => {
                Ok(Self { client, container, path, connection, env, is_exposed, removes_itself })
            }
            Err(error) => {
                discard(&client, &container, &path).await;
                Err(error)
            }
        }
    }

    /// Copies files into the directory. Their paths are relative to it.
    pub(super) async fn put(&mut self, files: Vec<(String, &[u8])>) -> Result<(), ContainerError> {
        let dir = self.path.trim_start_matches('/');
        let file = |(path, content)| ContainerFile { path: format!("{dir}/{path}"), content, is_program: false };
        let files: Vec<_> = files.into_iter().map(file).collect();
        exec::copy(&self.client, &self.container, &files).await
    }

    /// Makes this process remove the directory, because the agent was ended.
    pub(super) fn must_be_removed(&mut self) {
        self.removes_itself = false;
    }

    /// Ends the agent, and with it the processes of its jobs.
    pub(super) async fn close(self) {
        let Self { client, container, path, connection, removes_itself, .. } = self;
        // Its end shows that the agent has ended, and with it the processes of the job.
        let _ = timeout(crate::engine::CALL_TIMEOUT, connection.finish()).await;
        if !removes_itself {
            discard(&client, &container, &path).await;
        }
    }
}

/// Starts the agent. Returns its connection, the environment of programs, and whether a job can end it and whether it removes itself.
async fn start(
    client: &Docker,
    container: &str,
    path: &str,
    user: Option<&str>,
) -> Result<(AgentConnection, Vec<(String, String)>, bool, bool), ContainerError> {
    let program = format!("{path}/{PROGRAM}");
    let words = |own: &[&str]| -> Vec<String> {
        std::iter::once(program.as_str()).chain(own.iter().copied()).map(str::to_owned).collect()
    };
    let identify = Exec { words: words(&["identify"]), user, cwd: Some("/"), ..Exec::default() };
    let (status, output) = exec::run(client, container, &identify).await?;
    let shown = || one_line(&String::from_utf8_lossy(&output));
    if status != 0 {
        return Err(ContainerError::Agent(format!("exited with status {status}: {}", shown())));
    }
    // The container is not ours, and its programs may have changed the answer.
    let identity: Identity =
        serde_json::from_slice(&output).map_err(|error| ContainerError::Agent(format!("malformed answer: {error}")))?;
    if identity.uid != 0 {
        let groups: Vec<String> = identity.groups.iter().map(u32::to_string).collect();
        let text = format!("{}:{}:{}", identity.uid, identity.gid, groups.join(","));
        let serve = Exec {
            words: words(&["attach", &text]),
            user: Some("0"),
            cwd: Some("/"),
            has_stdin: true,
            ..Exec::default()
        };
        // Root cannot change the user in every container.
        if let Ok(connection) = connect(client, container, &serve).await {
            return Ok((connection, identity.env, false, true));
        }
    }
    let serve = Exec { words: words(&["attach", "self"]), user, cwd: Some("/"), has_stdin: true, ..Exec::default() };
    let connection = connect(client, container, &serve).await?;
    Ok((connection, identity.env, true, identity.uid == 0))
}

async fn connect(client: &Docker, container: &str, serve: &Exec<'_>) -> Result<AgentConnection, ContainerError> {
    let started = exec::start(client, container, serve).await?;
    let mut connection = AgentConnection::from_streams(started.output, started.input);
    match timeout(CREATE_TIMEOUT, connection.event()).await {
        Ok(Ok(Some(Event::Ready(PROTOCOL_VERSION)))) => Ok(connection),
        Ok(Ok(_)) => Err(connection.early_end_error("start the agent", "did not start")),
        Ok(Err(error)) => Err(error),
        Err(late) => Err(ContainerError::Lost { doing: "start the agent", source: Box::new(late) }),
    }
}

/// Removes the directory as root, if the agent can run.
async fn discard(client: &Docker, container: &str, path: &str) {
    let words = vec![format!("{path}/{PROGRAM}"), "discard".to_owned()];
    let _ = exec::run(client, container, &Exec { words, user: Some("0"), cwd: Some("/"), ..Exec::default() }).await;
}
