//! Boxes: environments in which many commands run at once, one after the other or side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::backend::{BackendError, BoxFuture, InstanceSpec};
use crate::limits::{Enforcement, Limits};
use crate::outcome::Outcome;
use crate::output_shape::OutputShape;
use crate::report::{Provenance, Usage};

/// Command to run in a box.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoxCommand {
    /// Command line: any bytes but NUL. The first word is looked up in the `PATH` of the box if it has no slash.
    pub argv: Vec<ByteBuf>,
    /// Variables in addition to those of the box.
    pub env: Vec<(ByteBuf, ByteBuf)>,
    /// Working directory, an absolute path in the box; `None` for that of the box.
    pub cwd: Option<ByteBuf>,
    /// Size of the terminal that the command has as its three streams; `None` for pipes.
    pub terminal: Option<WindowSize>,
    /// Limit on wall-clock time.
    pub wall: Option<Duration>,
}

impl BoxCommand {
    /// Creates a command with these words.
    pub fn new<W: Into<Vec<u8>>>(words: impl IntoIterator<Item = W>) -> Self {
        Self { argv: words.into_iter().map(|word| ByteBuf::from(word.into())).collect(), ..Self::default() }
    }
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

/// Settings of a box.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoxSettings {
    /// Name of the container; `None` for a random one.
    pub name: Option<String>,
    /// Variables of all commands, in addition to those that a box has by itself.
    pub env: BTreeMap<String, String>,
    /// Commands that the agent runs in place of their callers.
    pub shims: BTreeSet<String>,
    /// Limits on output.
    pub shape: OutputShape,
    /// Output that the limits apply to.
    pub truncation: Truncation,
    /// Rules for commands.
    pub rules: CommandRules,
}

/// Output of a box that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truncation {
    /// No output.
    Off,
    /// Output that reaches the caller of the box: not that of a command which another command reads.
    #[default]
    Capture,
    /// Output of every command with a shim, and output that reaches the caller.
    Every,
}

/// Rules for the commands of a box, by the last component of the path of their program.
///
/// They apply to commands that are started over the agent and to those with shims. A program that calls another one by its path
/// is not subject to them: the grants and limits of the box are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandRules {
    /// Commands that may run; `None` for all.
    pub allow: Option<BTreeSet<String>>,
    /// Commands that must not run.
    pub deny: BTreeSet<String>,
    /// Limits on the wall-clock time of single commands.
    pub wall: BTreeMap<String, Duration>,
}

impl CommandRules {
    /// Returns true if a command may run.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        !self.deny.contains(name) && self.allow.as_ref().is_none_or(|allowed| allowed.contains(name))
    }

    /// Returns the limit on the wall-clock time of a command, whose first word can be a path.
    #[must_use]
    pub fn wall_of(&self, first_word: &[u8]) -> Option<Duration> {
        let name = first_word.rsplit(|byte| *byte == b'/').next()?;
        self.wall.get(std::str::from_utf8(name).ok()?).copied()
    }
}

/// Input of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandInput {
    /// Bytes of its standard input.
    Bytes(Vec<u8>),
    /// End of its standard input.
    End,
    /// Signal for its process group.
    Signal(u8),
    /// New size of its terminal.
    Resize(WindowSize),
}

/// Event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// Bytes of standard output (0) or standard error (1).
    Output(usize, Vec<u8>),
    /// End of the command. No event follows.
    Ended(CommandEnd),
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnd {
    /// Outcome.
    pub outcome: Outcome,
    /// Resource use.
    pub usage: Usage,
    /// Reason that the command did not run.
    pub not_run: Option<NotRun>,
}

/// Reason that a command did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotRun {
    /// There is no such program, with its name.
    NotFound(String),
    /// The program cannot be executed, with the reason.
    NotExecutable(String),
    /// A rule of the box forbids it.
    Denied(String),
}

/// Call of a command through its shim, or over the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimCall {
    /// Command line, cut after a few thousand bytes.
    pub argv: Vec<ByteBuf>,
    /// Exit status, 128 and the number for a signal.
    pub status: i32,
    /// Wall-clock time.
    pub wall: Duration,
    /// True if a rule forbade it.
    pub is_denied: bool,
    /// File in the box that has the whole output, if the caller got a part.
    pub spilled: Option<String>,
}

/// Facts about an open box.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxFacts {
    /// Backend, image, container and engine.
    pub provenance: Provenance,
    /// Limits, and how they are enforced.
    pub limits: Limits,
    /// Enforcement of the limits.
    pub enforcement: Enforcement,
    /// Way to the agent.
    pub connection: AgentLink,
    /// Commands that have shims: those of the settings that exist in the image.
    pub shims: BTreeSet<String>,
}

/// Facts about a box that another process keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxInfo {
    /// Name of the box, and of its container.
    pub name: String,
    /// Time of the start, in milliseconds since 1970.
    pub created_ms: u64,
    /// Engine.
    pub engine: String,
    /// Image.
    pub image: String,
    /// Id of the container.
    pub container_id: String,
    /// Way to the agent.
    pub connection: AgentLink,
    /// Commands with shims.
    pub shims: BTreeSet<String>,
    /// Number of commands that were started.
    pub commands: u64,
    /// Number of commands that are running.
    pub running: u32,
    /// Process that keeps the box.
    pub pid: u32,
    /// Reason of the end, of a box that has ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Returns true for the name of a box: a letter or digit, and up to 62 letters, digits, `_`, `.` and `-`. Names that begin with
/// `codebox-` are those of other containers.
#[must_use]
pub fn is_box_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (2..=63).contains(&name.len())
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && name.bytes().all(is_inner)
        && !name.starts_with("codebox-")
}

/// Way in which commands reach a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentLink {
    /// Unix socket in a directory that is mounted into the container.
    Socket,
    /// Streams that the engine carries.
    Stdio,
}

/// Backend feature: boxes.
pub trait BoxHost: Send + Sync {
    /// Opens a box with exactly the grants and limits of `spec`.
    fn open<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        settings: &'a BoxSettings,
    ) -> BoxFuture<'a, Result<Box<dyn BoxInstance>, BackendError>>;
}

/// Open box. Dropping it only ends its processes; [`close`](Self::close) removes it.
pub trait BoxInstance: Send + Sync {
    /// Returns facts about the box.
    fn facts(&self) -> &BoxFacts;

    /// Starts a command.
    fn start(&self, command: BoxCommand) -> BoxFuture<'_, Result<Box<dyn RunningCommand>, BackendError>>;

    /// Returns the next call of a command with a shim; `None` once the box has ended. Cancel safe.
    fn next_shim_call(&self) -> BoxFuture<'_, Option<ShimCall>>;

    /// Waits for the end of the box and returns its reason.
    fn ended(&self) -> BoxFuture<'_, String>;

    /// Ends the box and removes everything that was created for it.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>>;
}

/// Running command of a box. Dropping it kills its process group.
pub trait RunningCommand: Send {
    /// Returns the next event. Cancel safe. An error means that the end of the command is unknown.
    fn event(&mut self) -> BoxFuture<'_, Result<CommandEvent, BackendError>>;

    /// Passes input to the command. Bytes wait until the command has read enough of the earlier ones. Cancel safe: bytes
    /// that were not accepted are lost with the future.
    fn send(&self, input: CommandInput) -> BoxFuture<'static, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_names() {
        for name in ["dev", "a1", "Box_2.x-y", &"x".repeat(63)] {
            assert!(is_box_name(name), "{name}");
        }
        for name in ["", "a", "-a", ".a", "a/b", "a b", "..", "é1", "codebox-run-1", &"x".repeat(64)] {
            assert!(!is_box_name(name), "{name}");
        }
    }

    #[test]
    fn a_denied_command_is_not_allowed_by_a_list() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let rules = CommandRules { allow: Some(set(&["cat", "git"])), deny: set(&["git"]), wall: BTreeMap::new() };
        assert!(rules.allows("cat") && !rules.allows("git") && !rules.allows("ls"));
        assert!(CommandRules::default().allows("ls"));
    }
}
