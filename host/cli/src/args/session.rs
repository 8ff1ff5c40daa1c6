//! Arguments of `codebox session`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use codebox_core::{
    ByteSize, DirGrantSpec, Isolation, Language, Limit, LimitOverrides, NetGrant, SessionContainer, parse_duration,
    parse_size,
};
use codebox_runner::Resumption;
use codebox_service::{EnvRequest, Preference, Program, Request, SecretOrigin, SecretRequest};

use super::run::LimitArgs;
use super::show::ShowArgs;
use super::tools::ToolArgs;
use super::values::{LanguageParser, engine, session_preference};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Create a session and print its id
    ///
    /// The interpreter starts with the first cell. The limits on time and output apply to each cell, the others to the session.
    New(Box<NewSessionArgs>),
    /// Run a cell in a session
    ///
    /// Prints the output and the value of the last expression. An exception ends the cell alone. A limit that is reached ends the
    /// interpreter; the session then comes back from its last checkpoint.
    Exec(Box<CellArgs>),
    /// Decide the call that a suspended cell waits for
    ///
    /// The cell is run again from its start, with the same random numbers and the recorded results of its calls, and goes on after the
    /// decision: no call is made twice, and no output is printed twice; a JSON document has all of it. The tools are those of the suspended command; tools of a
    /// `codebox.toml` have to be found from the same directory.
    Resume(Box<ResumeArgs>),
    /// Create sessions with the state of another one, and print their ids, one a line
    Fork {
        /// The session
        id: String,
        /// Number of new sessions
        #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1)]
        count: u32,
    },
    /// Save the state of a session under a name
    ///
    /// The state is the memory of the interpreter and the private files. Files and connections that the cells have left open are
    /// named and refused.
    Checkpoint {
        /// The session
        id: String,
        /// Name of the checkpoint; an earlier one of this name is replaced
        #[arg(long)]
        name: String,
    },
    /// Return to the state of a checkpoint
    Restore {
        /// The session
        id: String,
        /// Name of the checkpoint
        name: String,
    },
    /// Write the state of a session to a file
    ///
    /// The file has the memory of the interpreter and the private files, compressed, with a checksum, and no grants. Another machine with
    /// the same runtime imports it.
    Export {
        /// The session
        id: String,
        /// File to write, or `-` for standard output; an existing file is replaced
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Export the state of this checkpoint
        #[arg(long, value_name = "NAME")]
        checkpoint: Option<String>,
    },
    /// Create a session from a file of `session export` and print its id
    ///
    /// The file is not trusted: it determines the state of the interpreter, and nothing else. The grants and limits are those of this
    /// command. The packages have to be those with which the session was exported.
    Import(Box<ImportArgs>),
    /// Copy a file of a session to this machine
    ///
    /// The file is below /work or /tmp in the session, and has at most 16 MiB. An interpreter that was released is started.
    Get {
        /// The session
        id: String,
        /// Path of the file in the session; a relative one is below /work
        path: PathBuf,
        /// File to write, or `-` for standard output; an existing file is replaced [default: the name of the file, in the current
        /// directory]
        to: Option<PathBuf>,
    },
    /// Give a session the values of its secrets again
    ///
    /// The values are not saved: the background process has them in memory, and needs them again after it has ended. They are those of
    /// this environment.
    Secret {
        /// The session
        id: String,
        /// The secrets
        #[arg(required = true, value_name = "NAME=env:VARIABLE")]
        secrets: Vec<SecretOrigin>,
    },
    /// Save the state of a session to disk and release its interpreter, until the next cell
    Park {
        /// The session
        id: String,
    },
    /// List the sessions
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show a session and its checkpoints
    Show {
        /// The session
        id: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// End sessions and remove their checkpoints
    Stop {
        /// The sessions
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Save all sessions and end the background process
    End,
}

/// Arguments of `codebox session new`.
#[derive(Debug, Args)]
pub(crate) struct NewSessionArgs {
    /// Language of the cells
    #[arg(long, value_name = "LANGUAGE", value_parser = LanguageParser, hide_possible_values = true, default_value = "python")]
    pub lang: Language,

    #[command(flatten)]
    pub place: PlaceArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}

/// Place of the interpreter of a session.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Isolation between the cells and this machine: wasm, or container for an interpreter that is kept in a container
    ///
    /// Sessions in containers cannot be saved, forked, parked or exported.
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = session_preference())]
    pub isolation: Preference,

    /// Container image; the session is in a container then
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,

    /// Container engine; the session is in a container then
    #[arg(long, value_name = "ENGINE", value_parser = engine())]
    pub engine: Option<String>,
}

impl PlaceArgs {
    /// Returns the request with this place, and the container for the process that keeps the session.
    pub(crate) fn of(self, request: Request) -> (Request, SessionContainer) {
        let Self { isolation, image, engine } = self;
        let container = SessionContainer { image: image.clone(), engine: engine.clone() };
        // Sessions choose no tier by their cells, and memory images are chosen by imports.
        let is_for_containers = isolation == Preference::Auto && (image.is_some() || engine.is_some());
        let isolation = if is_for_containers { Preference::Only(Isolation::Container) } else { isolation };
        (Request { isolation, image, engine, ..request }, container)
    }
}

/// Arguments of `codebox session import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File of `session export`, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub grants: GrantArgs,
}

/// Grants, packages and limits of several programs.
#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// Grant a directory of this machine, read-only unless `:rw` is added; repeatable
    #[arg(long = "dir", value_name = "HOST[:GUEST][:ro|rw]")]
    pub dirs: Vec<DirGrantSpec>,

    /// Allow connections to this host: a name, `*.domain`, an address or a range; repeatable
    #[arg(long = "net", value_name = "HOST[:PORT]")]
    pub net: Vec<NetGrant>,

    /// Pass a variable of this environment, or set one to a value; repeatable
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<EnvRequest>,

    /// Let the program use a secret of this environment in requests to HOST, without seeing it; repeatable
    ///
    /// The program's variable NAME has a placeholder. In the headers of its HTTP requests to HOST, which --net must grant, the
    /// placeholder is replaced with the value of VARIABLE, over TLS only. Separate several hosts with commas. In WebAssembly only.
    #[arg(long = "secret", value_name = "NAME=env:VARIABLE@HOST")]
    pub secrets: Vec<SecretRequest>,

    /// Install this package; repeatable
    #[arg(long = "with", value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with: Vec<String>,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Arguments of `codebox session exec`.
#[derive(Debug, Args)]
pub(crate) struct CellArgs {
    /// The session
    pub id: String,

    /// File with the text of the cell, or `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "code", conflicts_with = "code")]
    pub file: Option<PathBuf>,

    /// Text of the cell
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub code: Option<String>,

    /// Print one JSON document with the result, the output and the rich results, instead of streaming the output
    #[arg(long)]
    pub json: bool,

    /// Pass the standard input of this command to the cell, which is read to its end first; only in WebAssembly
    #[arg(long)]
    pub stdin: bool,

    /// Wall time of this cell, such as 500ms or 5s, in place of that of the session
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Limit<Duration>>,

    /// Processor time of this cell
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub cpu_time: Option<Limit<Duration>>,

    /// Bytes kept of each of stdout and stderr of this cell
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub max_output: Option<Limit<ByteSize>>,

    /// Suspend the cell at a call that needs an approval, in place of a question; without a terminal this is the default
    ///
    /// `session resume` decides the call on any later day. Only in WebAssembly.
    #[arg(long)]
    pub suspend: bool,

    #[command(flatten)]
    pub show: ShowArgs,

    #[command(flatten)]
    pub tools: ToolArgs,
}

/// Arguments of `codebox session resume`.
#[derive(Debug, Args)]
#[group(id = "decision", required = true, multiple = false)]
pub(crate) struct ResumeArgs {
    /// The session
    pub id: String,

    /// Make the call that the cell waits for, and go on
    #[arg(long, group = "decision")]
    pub approve: bool,

    /// Refuse the call, which fails in the cell, and go on
    #[arg(long, group = "decision")]
    pub deny: bool,

    /// Run the cell on that was stopped after the decision, by a limit, a cancellation or a crash
    #[arg(long = "continue", group = "decision")]
    pub goes_on: bool,

    /// End the cell; the session has the state before it
    #[arg(long, group = "decision")]
    pub discard: bool,

    /// Call that is decided, as it is printed when the cell is suspended; another one is refused
    #[arg(long, value_name = "CALL", conflicts_with = "goes_on")]
    pub call: Option<String>,

    /// Print one JSON document with the result, the output and the rich results, instead of streaming the output
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub show: ShowArgs,
}

impl ResumeArgs {
    /// Returns the way in which the cell goes on.
    pub(crate) fn resumption(&self) -> Resumption {
        match (self.approve, self.deny) {
            (true, _) => Resumption::Approve,
            (false, true) => Resumption::Deny,
            (false, false) => Resumption::Continue,
        }
    }
}

impl GrantArgs {
    /// Returns a request with these grants, packages and limits, without a program.
    pub(crate) fn request(self, language: Option<Language>) -> Request {
        let Self { dirs, net, env, secrets, with, limits } = self;
        Request {
            language,
            dirs,
            net,
            env,
            secrets,
            packages: with,
            limits: limits.overrides(),
            cpus: limits.cpus(),
            ..Request::new(Program::Inline(String::new()))
        }
    }
}

impl CellArgs {
    /// Returns the limits as values.
    pub(crate) fn limits(&self) -> LimitOverrides {
        let (wall, cpu, output) = (self.timeout, self.cpu_time, self.max_output);
        LimitOverrides { wall, cpu, output, ..LimitOverrides::default() }
    }
}
