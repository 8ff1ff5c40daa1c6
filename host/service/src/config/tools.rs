//! Host tools in a configuration file.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use codebox_core::{Approval, DirGrantSpec, Limit, NetGrant, ToolName, is_box_name, parse_duration};
use serde::Deserialize;

use super::ConfigError;
use crate::admission::{EnvRequest, Preference};

/// Host tools of a configuration file, by their names.
pub type Tools = BTreeMap<ToolName, ToolSettings>;

/// Host tool of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSettings {
    /// Purpose, for people and models.
    pub description: String,
    /// Action of a call; `None` for an entry that only sets the approval of a tool of an MCP server.
    pub action: Option<ToolAction>,
    /// JSON Schema of the input, an object.
    pub input: serde_json::Value,
    /// JSON Schema of the output, if it is given.
    pub output: Option<serde_json::Value>,
    /// Permission to call the tool.
    pub approval: Approval,
    /// Maximum wall time of a call.
    pub timeout: Option<Duration>,
}

/// Action of a call of a tool. It gets the input as JSON text on its standard input, and writes the output as JSON text to its standard
/// output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolAction {
    /// Runs a command on this machine, outside of the sandbox, with the powers of the user.
    Command(Vec<String>),
    /// Runs a program in the sandbox.
    Run(SandboxedTool),
    /// Runs a command in a box that the user has started.
    InBox {
        /// Name of the box.
        name: String,
        /// Words of the command.
        words: Vec<String>,
    },
}

/// Tool that is a program in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxedTool {
    /// The program.
    pub program: ToolProgram,
    /// Directories that it is granted.
    pub dirs: Vec<DirGrantSpec>,
    /// Hosts that it is granted.
    pub net: Vec<NetGrant>,
    /// Environment variables.
    pub env: Vec<EnvRequest>,
    /// Packages to install.
    pub packages: Vec<String>,
    /// Isolation.
    pub isolation: Preference,
    /// Isolation that is preferred among the accepted ones.
    pub prefers: Option<Preference>,
    /// Image to start from.
    pub image: Option<String>,
}

/// Program of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolProgram {
    /// File in a language with an interpreter, relative to a directory, without references to parent directories.
    File {
        /// Directory of the configuration file.
        dir: PathBuf,
        /// Path in the directory.
        path: PathBuf,
    },
    /// Words of a command, which runs in a container.
    Words(Vec<String>),
}

/// Deserialized tool, before its values are checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default)]
    description: String,
    run: Option<FileOrWords>,
    command: Option<Vec<String>>,
    input: Option<serde_json::Value>,
    output: Option<serde_json::Value>,
    #[serde(default)]
    approval: Approval,
    timeout: Option<String>,
    #[serde(default)]
    dirs: Vec<String>,
    #[serde(default)]
    net: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    with: Vec<String>,
    isolation: Option<String>,
    #[serde(rename = "prefer-isolation", alias = "prefer_isolation")]
    prefer_isolation: Option<String>,
    image: Option<String>,
    #[serde(rename = "box")]
    in_box: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FileOrWords {
    File(PathBuf),
    Words(Vec<String>),
}

/// Reads the tools of a file.
pub(super) fn read(tables: BTreeMap<String, Table>, file: &Path) -> Result<Tools, ConfigError> {
    let read = |(name, table): (String, Table)| {
        let at = At { file, name: &name };
        let valid = ToolName::new(&name).map_err(|_| {
            at.fault(
                "",
                "the name is invalid",
                "use up to 128 letters, digits, '_', '-' and '.'; quote a name with a dot",
            )
        })?;
        Ok((valid, table.read(&at)?))
    };
    tables.into_iter().map(read).collect()
}

/// Adds the tools of a project to those of the user. Tools of a project run in the sandbox, without grants, and in the images of the user.
pub(super) fn narrowed(ours: &Tools, theirs: &Tools, file: &Path) -> Result<Tools, ConfigError> {
    let fix = "define the tool in your own configuration";
    for (name, tool) in theirs {
        let at = At { file, name: name.as_str() };
        if ours.contains_key(name) {
            return Err(at.fault("", "the user configuration has a tool of this name", "give it another name"));
        }
        match &tool.action {
            Some(ToolAction::Command(_)) => {
                return Err(at.fault("command", "a project cannot run commands outside of the sandbox", fix));
            }
            Some(ToolAction::InBox { .. }) => {
                return Err(at.fault("box", "a project cannot run commands in boxes of the user", fix));
            }
            Some(ToolAction::Run(tool)) => {
                let grants = [
                    ("dirs", tool.dirs.is_empty()),
                    ("net", tool.net.is_empty()),
                    ("env", tool.env.is_empty()),
                    // The engine would pull it outside of the sandbox.
                    ("image", tool.image.is_none()),
                ];
                if let Some((key, _)) = grants.into_iter().find(|(_, is_empty)| !is_empty) {
                    return Err(at.fault(key, "a project cannot give its tools grants or images", fix));
                }
                // Its maker chooses the image, the user and the network of a dev container.
                for (key, preference) in [("isolation", Some(tool.isolation)), ("prefer-isolation", tool.prefers)] {
                    if preference == Some(Preference::DevContainer) {
                        return Err(at.fault(key, "a project cannot choose its dev container for its tools", fix));
                    }
                }
            }
            None => {}
        }
    }
    Ok(ours.iter().chain(theirs).map(|(name, tool)| (name.clone(), tool.clone())).collect())
}

/// A tool in a file.
struct At<'a> {
    file: &'a Path,
    name: &'a str,
}

impl At<'_> {
    fn fault(&self, key: &str, detail: impl Display, fix: &str) -> ConfigError {
        let dot = if key.is_empty() { "" } else { "." };
        ConfigError::new(self.file, format!("tools.{}{dot}{key}", self.name.escape_debug()), detail, fix)
    }

    /// Parses all values of a list.
    fn parse<T: std::str::FromStr>(&self, key: &str, texts: Vec<String>) -> Result<Vec<T>, ConfigError>
    where
        T::Err: Display,
    {
        let parse = |text: String| {
            text.parse().map_err(|error| self.fault(key, error, "write it as the option of `codebox run` takes it"))
        };
        texts.into_iter().map(parse).collect()
    }
}

impl Table {
    fn read(self, at: &At<'_>) -> Result<ToolSettings, ConfigError> {
        let Self { description, run, command, input, output, approval, timeout, .. } = self;
        let has_grants = !(self.dirs.is_empty() && self.net.is_empty() && self.env.is_empty() && self.with.is_empty());
        let has_options =
            has_grants || self.isolation.is_some() || self.prefer_isolation.is_some() || self.image.is_some();
        if let Some(name) = self.in_box {
            if has_options || command.is_some() {
                let fix = "use run with the words of a command alone";
                return Err(at.fault("box", "a command in a box has the grants of the box", fix));
            }
            let Some(FileOrWords::Words(words)) = run else {
                return Err(at.fault("run", "a tool in a box is a command", "write its words as a list"));
            };
            if !is_box_name(&name) {
                return Err(at.fault("box", format!("{name:?} is not the name of a box"), "see codebox box list"));
            }
            let action = Some(ToolAction::InBox { name, words: at.words("run", words)? });
            let timeout = at.timeout(timeout)?;
            let input = input.unwrap_or_else(|| serde_json::json!({ "type": "object" }));
            return Ok(ToolSettings { description, action, input, output, approval, timeout });
        }
        let action = match (run, command) {
            (Some(_), Some(_)) => return Err(at.fault("", "it has run and command", "remove one of them")),
            (None, _) if has_options => {
                let fix = "use run, or remove dirs, net, env, with, isolation and image";
                return Err(at.fault("", "only a tool with run has grants, packages, an isolation and an image", fix));
            }
            (None, None) if input.is_some() || output.is_some() || timeout.is_some() => {
                return Err(at.fault("", "it has neither run nor command", "add one of them"));
            }
            (None, None) => None,
            (None, Some(words)) => Some(ToolAction::Command(at.words("command", words)?)),
            (Some(run), None) => Some(ToolAction::Run(SandboxedTool {
                program: at.program(run)?,
                dirs: at.parse("dirs", self.dirs)?,
                net: at.parse("net", self.net)?,
                env: at.parse("env", self.env)?,
                packages: self.with,
                isolation: match self.isolation {
                    None => Preference::Auto,
                    Some(text) => text
                        .parse()
                        .map_err(|error| at.fault("isolation", error, "use auto, wasm, container or devcontainer"))?,
                },
                prefers: match self.prefer_isolation.map(|text| text.parse()) {
                    None => None,
                    Some(Ok(prefers @ Preference::Only(_))) => Some(prefers),
                    Some(_) => return Err(at.fault("prefer-isolation", "invalid value", "use wasm or container")),
                },
                image: self.image,
            })),
        };
        let timeout = at.timeout(timeout)?;
        let input = input.unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        Ok(ToolSettings { description, action, input, output, approval, timeout })
    }
}

impl At<'_> {
    fn timeout(&self, text: Option<String>) -> Result<Option<Duration>, ConfigError> {
        let parse = |text: String| match parse_duration(&text) {
            Ok(Limit::At(time)) => Ok(time),
            Ok(Limit::Unlimited) => {
                Err(self.fault("timeout", "a call has a time limit", "write a duration such as 30s"))
            }
            Err(error) => Err(self.fault("timeout", error, "write a duration such as 30s")),
        };
        text.map(parse).transpose()
    }

    fn words(&self, key: &str, words: Vec<String>) -> Result<Vec<String>, ConfigError> {
        match words.first() {
            Some(program) if !program.is_empty() => Ok(words),
            _ => Err(self.fault(key, "the command is empty", "write its words as a list")),
        }
    }

    fn program(&self, run: FileOrWords) -> Result<ToolProgram, ConfigError> {
        Ok(match run {
            FileOrWords::Words(words) => ToolProgram::Words(self.words("run", words)?),
            FileOrWords::File(path) => {
                let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
                if !is_below || path.file_name().is_none() {
                    let detail = format!("{} is not a path below the directory of this file", path.display());
                    return Err(self.fault("run", detail, "write a relative path without `..`"));
                }
                let dir = self.file.parent().filter(|dir| !dir.as_os_str().is_empty());
                ToolProgram::File { dir: dir.unwrap_or(Path::new(".")).to_owned(), path }
            }
        })
    }
}
