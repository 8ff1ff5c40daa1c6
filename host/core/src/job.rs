use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::boxes::WindowSize;
use crate::grants::Grants;
use crate::isolation::IsolationSet;
use crate::language::Language;
use crate::limits::{Cpus, Limits};
use crate::path::{GuestPath, HostPath};

/// Program to run, with its input, grants and limits.
///
/// A job is complete: a backend needs nothing from the host's environment to run it. Settings from the user's
/// configuration and environment have already been resolved into the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The program.
    pub source: Source,
    /// Language of the program.
    pub language: Language,
    /// Arguments after the program's own name.
    pub args: Vec<String>,
    /// Standard input of the program.
    pub stdin: Stdin,
    /// Complete environment of the guest, names and values; no other variable is visible to the guest.
    pub env: BTreeMap<String, String>,
    /// Packages to provide before the program starts, as the language's package manager names them.
    pub packages: Vec<String>,
    /// Files to create before the program starts.
    pub files: Vec<InputFile>,
    /// Working directory of the program. A missing one is created below `/work` and `/tmp` if they are private. Cells of sessions stay in
    /// their directory.
    #[serde(default = "GuestPath::work")]
    pub work_dir: GuestPath,
    /// Host directory that receives the files left in the program's working directory, if they are kept.
    pub out: Option<HostPath>,
    /// Treatment of files that `out` already has.
    #[serde(default)]
    pub out_guard: OutGuard,
    /// Size of the terminal that the program's standard streams are; `None` for pipes. In containers, standard error is then part of standard
    /// output. Cells of sessions have none.
    #[serde(default)]
    pub terminal: Option<WindowSize>,
    /// Files below `/work` or `/tmp` that the report returns. Only cells of sessions return files.
    #[serde(default)]
    pub returns: Vec<GuestPath>,
    /// Number of a cell in error reports; `None` for one more than that of the cell before.
    #[serde(default)]
    pub cell_number: Option<u32>,
    /// Host resources that the program may access.
    pub grants: Grants,
    /// Limits on the program's resource use.
    pub limits: Limits,
    /// Processors that the program may keep busy; `None` for all. A program in WebAssembly has one thread, so less than one processor needs a
    /// container.
    #[serde(default)]
    pub cpus: Option<Cpus>,
    /// True if rich results are collected for the report: the objects that the program displays, and in Python the value of its
    /// last expression. In WebAssembly only.
    pub results: bool,
    /// Isolations that the caller accepts; the router never leaves this set.
    pub isolations: IsolationSet,
}

impl Job {
    /// Creates a job with no arguments, input, environment or grants, with the default limits, on any isolation.
    ///
    /// Such a job runs in WebAssembly if possible. It may run in a container if its program needs threads, processes,
    /// sockets or a native module, or if it fails because one of them is missing. [`isolations`](Self::isolations)
    /// restricts the choice.
    #[must_use]
    pub fn new(source: Source, language: Language) -> Self {
        Self {
            source,
            language,
            args: Vec::new(),
            stdin: Stdin::Empty,
            env: BTreeMap::new(),
            packages: Vec::new(),
            files: Vec::new(),
            work_dir: GuestPath::work(),
            out: None,
            out_guard: OutGuard::None,
            terminal: None,
            returns: Vec::new(),
            cell_number: None,
            grants: Grants::none(),
            limits: Limits::default(),
            cpus: None,
            results: false,
            isolations: IsolationSet::auto(),
        }
    }

    /// Creates a job for a Python program given as text, as with `-c`; everything else is as in [`new`](Self::new).
    #[must_use]
    pub fn python(code: impl Into<String>) -> Self {
        Self::new(Source::Inline(code.into()), Language::Python)
    }
}

/// Treatment of files of the project in the directory that files are copied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OutGuard {
    /// Every file is written, and replaces an existing one.
    #[default]
    None,
    /// The directory is in the project. Files are not written under names that a copy of a project does not have, such as `.env`.
    Names,
    /// The directory is the project or contains it. Existing files are replaced only if the job had copies of them.
    Existing,
}

/// Origin of a program, which also determines the name that the program sees as its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Text on the command line: `argv[0]` is `-c`, and the file name is `<string>`.
    Inline(String),
    /// Text that was read from standard input: `argv[0]` is `-`, and the file name is `<stdin>`.
    Stdin(String),
    /// A file.
    File {
        /// `argv[0]`: the name exactly as the user typed it.
        argv0: String,
        /// Path of the file in the guest, for `__file__`, tracebacks and `sys.path[0]`.
        name: GuestPath,
        /// Bytes of the file, in the encoding that the file declares.
        #[serde(with = "serde_bytes")]
        text: Vec<u8>,
    },
    /// A command line, for backends with an operating system in the guest; a backend never accepts an empty one.
    Command(Vec<String>),
    /// A tool that the guest provides by name.
    Tool {
        /// The tool's name.
        name: String,
        /// The tool's input.
        input: serde_json::Value,
    },
}

impl Source {
    /// Returns the program's `argv[0]`.
    #[must_use]
    pub fn argv0(&self) -> &str {
        match self {
            Self::Inline(_) => "-c",
            Self::Stdin(_) => "-",
            Self::File { argv0, .. } => argv0,
            Self::Command(words) => words.first().map_or("", String::as_str),
            Self::Tool { name, .. } => name,
        }
    }

    /// Returns the file name of the program in tracebacks.
    #[must_use]
    pub fn file_name(&self) -> &str {
        match self {
            Self::Inline(_) => "<string>",
            Self::Stdin(_) => "<stdin>",
            Self::File { name, .. } => name.as_str(),
            Self::Command(words) => words.first().map_or("", String::as_str),
            Self::Tool { name, .. } => name,
        }
    }

    /// Returns the program's bytes, if the source is a program text.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(text) | Self::Stdin(text) => Some(text.as_bytes()),
            Self::File { text, .. } => Some(text),
            Self::Command(_) | Self::Tool { .. } => None,
        }
    }
}

/// Standard input of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Stdin {
    /// End of file at once.
    #[default]
    Empty,
    /// These bytes, then end of file.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The bytes of [`ExecIo::stdin`](crate::ExecIo::stdin), read only when the guest requests input.
    Streamed,
}

/// File to create in the guest before the program starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Path in the guest.
    pub path: GuestPath,
    /// Content of the file.
    #[serde(with = "serde_bytes")]
    pub content: Vec<u8>,
    /// True if the file can be executed as a program.
    #[serde(default)]
    pub executable: bool,
}

impl InputFile {
    /// Creates a file that cannot be executed.
    #[must_use]
    pub fn new(path: GuestPath, content: Vec<u8>) -> Self {
        Self { path, content, executable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv0_and_file_name_follow_cpython() {
        let job = Job::python("print(1)");
        assert_eq!((job.source.argv0(), job.source.file_name()), ("-c", "<string>"));
        let stdin = Source::Stdin(String::new());
        assert_eq!((stdin.argv0(), stdin.file_name()), ("-", "<stdin>"));
    }
}
