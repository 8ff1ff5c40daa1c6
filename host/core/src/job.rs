use std::collections::BTreeMap;

use crate::grants::Grants;
use crate::isolation::IsolationSet;
use crate::language::Language;
use crate::limits::Limits;
use crate::path::{GuestPath, HostPath};

/// What to run, with what, and what it may touch.
///
/// A job is complete: a backend needs nothing from the host's environment to run it. Everything that a user
/// may have said elsewhere (configuration, environment) has been resolved into it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The program.
    pub source: Source,
    /// The language it is written in.
    pub language: Language,
    /// The arguments after the program's own name.
    pub args: Vec<String>,
    /// What the program reads from its standard input.
    pub stdin: Stdin,
    /// The whole environment of the guest, names and values; nothing else is visible to it.
    pub env: BTreeMap<String, String>,
    /// Packages to have before the program starts, as the language's package manager names them.
    pub packages: Vec<String>,
    /// Files to put in before the program starts.
    pub files: Vec<InputFile>,
    /// Where the files that the program leaves in its working directory are brought to, if anywhere.
    pub out: Option<HostPath>,
    /// What it may touch.
    pub grants: Grants,
    /// How much it may use.
    pub limits: Limits,
    /// The isolations that the caller accepts; the router never leaves this set.
    pub isolations: IsolationSet,
}

impl Job {
    /// A job with no arguments, input, environment or grants, under the default limits, on any isolation.
    ///
    /// So it runs in WebAssembly where that can serve, and may run in a container where it cannot: if its program needs
    /// threads, processes, sockets or a native module, or dies for want of one. [`isolations`](Self::isolations) narrows that.
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
            out: None,
            grants: Grants::none(),
            limits: Limits::default(),
            isolations: IsolationSet::auto(),
        }
    }

    /// A Python program given as text, as `-c` gives it; else as [`new`](Self::new), on any isolation.
    #[must_use]
    pub fn python(code: impl Into<String>) -> Self {
        Self::new(Source::Inline(code.into()), Language::Python)
    }
}

/// Where a program comes from, which is also what it sees as its own name.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Text on the command line: `argv[0]` is `-c`, its file is `<string>`.
    Inline(String),
    /// Text that was read from standard input: `argv[0]` is `-`, its file is `<stdin>`.
    Stdin(String),
    /// A file.
    File {
        /// `argv[0]`: the name exactly as the user typed it.
        argv0: String,
        /// The file's place in the guest, for `__file__`, tracebacks and `sys.path[0]`.
        name: GuestPath,
        /// Its bytes, in whatever encoding it declares.
        text: Vec<u8>,
    },
    /// A command line, for backends with an operating system inside. Never empty where a backend accepts it.
    Command(Vec<String>),
    /// A tool that the guest offers by name.
    Tool {
        /// The tool's name.
        name: String,
        /// Its input.
        input: serde_json::Value,
    },
}

impl Source {
    /// What the program sees as `argv[0]`.
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

    /// What tracebacks name as the program's file.
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

    /// The program's bytes, where there is a program text.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(text) | Self::Stdin(text) => Some(text.as_bytes()),
            Self::File { text, .. } => Some(text),
            Self::Command(_) | Self::Tool { .. } => None,
        }
    }
}

/// What the guest finds on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// End of file at once.
    #[default]
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Whatever [`ExecIo::stdin`](crate::ExecIo::stdin) yields, read as the guest asks for it.
    Streamed,
}

/// A file to put into the guest before the program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Where it appears.
    pub path: GuestPath,
    /// What it holds.
    pub content: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_themselves_as_python_does() {
        let job = Job::python("print(1)");
        assert_eq!((job.source.argv0(), job.source.file_name()), ("-c", "<string>"));
        let stdin = Source::Stdin(String::new());
        assert_eq!((stdin.argv0(), stdin.file_name()), ("-", "<stdin>"));
    }
}
