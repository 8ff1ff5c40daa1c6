//! Arguments of the tools, as their schemas describe them to models.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use codebox_core::{GuestPath, InputFile, Language, Limit, LimitOverrides};
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum time limit that a call can name if the operator has named none, in seconds. That of the configuration applies as well.
const MAX_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

/// Language of a program.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LanguageName {
    #[default]
    Python,
    JavaScript,
    TypeScript,
}

impl From<LanguageName> for Language {
    fn from(name: LanguageName) -> Self {
        match name {
            LanguageName::Python => Self::Python,
            LanguageName::JavaScript => Self::JavaScript,
            LanguageName::TypeScript => Self::TypeScript,
        }
    }
}

/// File to create before a program starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileArgument {
    /// Path, relative to the working directory `/work`, or absolute
    pub path: String,
    /// Content as text
    #[serde(default)]
    pub text: Option<String>,
    /// Content in base64, in place of text
    #[serde(default)]
    pub base64: Option<String>,
}

impl TryFrom<FileArgument> for InputFile {
    type Error = String;

    fn try_from(file: FileArgument) -> Result<Self, String> {
        let path = guest_path(&file.path)?;
        let content = match (file.text, file.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(data)) => BASE64.decode(data).map_err(|error| format!("the file {}: {error}", file.path))?,
            _ => return Err(format!("the file {} needs either text or base64", file.path)),
        };
        Ok(Self::new(path, content))
    }
}

/// Returns a path of the guest, which is below the working directory if it is relative.
pub(crate) fn guest_path(path: &str) -> Result<GuestPath, String> {
    let absolute = if path.starts_with('/') { path.to_owned() } else { format!("/work/{path}") };
    GuestPath::new(&absolute).map_err(|error| error.to_string())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunArguments {
    /// Text of the program. The value of its last expression is returned as well.
    pub code: String,
    #[serde(default)]
    pub language: LanguageName,
    /// Arguments of the program
    #[serde(default)]
    pub args: Vec<String>,
    /// Standard input of the program
    #[serde(default)]
    pub stdin: String,
    /// Files to create before the program starts
    #[serde(default)]
    pub files: Vec<FileArgument>,
    /// Paths of files to return after the run, relative to /work
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Packages to install, from PyPI or npm. numpy, pandas, scipy, matplotlib and others are part of the runtime.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Limit on the run time in seconds
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlocksArguments {
    /// Markdown text with fenced code blocks in python, javascript, typescript or sh
    pub text: String,
    /// Run each block as a program of its own instead of sharing state in a session
    #[serde(default)]
    pub isolated: bool,
    /// Go on after a block that failed
    #[serde(default)]
    pub keep_going: bool,
    /// Packages of PyPI to install for blocks in Python
    #[serde(default)]
    pub packages: Vec<String>,
    /// Packages of npm to install for blocks in JavaScript and TypeScript
    #[serde(default)]
    pub npm_packages: Vec<String>,
    /// Limit on the run time of each block in seconds
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainArguments {
    /// Text of the program
    pub code: String,
    #[serde(default)]
    pub language: LanguageName,
    /// Packages that the program needs
    #[serde(default)]
    pub packages: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionArguments {
    #[serde(default)]
    pub language: LanguageName,
    /// Packages to install, from PyPI or npm
    #[serde(default)]
    pub packages: Vec<String>,
    /// A session in a container has processes, threads and native packages. It cannot be forked or saved.
    #[serde(default)]
    pub isolation: SessionIsolation,
}

/// Isolation of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SessionIsolation {
    #[default]
    Wasm,
    Container,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackagesArguments {
    #[serde(default)]
    pub language: LanguageName,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellArguments {
    /// Id of the session
    pub session: String,
    /// Text of the cell
    pub code: String,
    /// Standard input of the cell. A session in a container has none.
    #[serde(default)]
    pub stdin: String,
    /// Files to create in the session before the cell runs
    #[serde(default)]
    pub files: Vec<FileArgument>,
    /// Paths of files to return after the cell, relative to /work
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Limit on the run time in seconds
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkArguments {
    /// Id of the session
    pub session: String,
    /// Number of new sessions, at most 64
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u32,
}

const fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointArguments {
    /// Id of the session
    pub session: String,
    /// Name of the checkpoint
    pub name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionArguments {
    /// Id of the session
    pub session: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoxArguments {
    /// Name of the box; without one, the only box of the server
    #[serde(default)]
    #[serde(rename = "box")]
    pub name: Option<String>,
    /// Words of the command, such as `["bash", "-lc", "grep -rn TODO . | head"]`; no shell runs unless it is named
    pub command: Vec<String>,
    /// Standard input
    #[serde(default)]
    pub stdin: String,
    /// Working directory, an absolute path in the box; /work by default
    #[serde(default)]
    pub workdir: Option<String>,
    /// Time limit in seconds
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

/// Returns limits with the time limit of a call, which is at most that of the operator.
pub(crate) fn with_timeout(limits: LimitOverrides, seconds: Option<f64>) -> Result<LimitOverrides, String> {
    let Some(seconds) = seconds else { return Ok(limits) };
    let max = limits.wall.and_then(Limit::at).map_or(MAX_SECONDS, |wall| wall.as_secs_f64());
    if !(seconds > 0.0 && seconds <= max) {
        return Err(format!("timeout_seconds must be above 0 and at most {max}"));
    }
    Ok(LimitOverrides { wall: Some(Limit::At(Duration::from_secs_f64(seconds))), ..limits })
}
