use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use codebox_core::{DirGrantSpec, Language};
use codebox_service::Preference;

use super::ProgramAt;
use super::values::preference;

/// What `codebox explain` was asked for.
#[derive(Debug, Args)]
#[command(
    override_usage = "codebox explain [OPTIONS] FILE [--] [ARGS]...\n       codebox explain [OPTIONS] -c CODE [--] [ARGS]...\n       codebox explain [OPTIONS] - [--] [ARGS]... < PROGRAM"
)]
pub(crate) struct ExplainArgs {
    /// The program: a file, or `-` to read it from standard input; its arguments change nothing
    #[arg(value_name = "FILE", trailing_var_arg = true, required_unless_present = "code")]
    pub words: Vec<OsString>,

    /// Explain this text instead of a file
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    pub code: Option<String>,

    /// What has to stand between the program and this machine
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = preference())]
    pub isolation: Preference,

    /// Show a directory of this machine to the program, as for `codebox run`; modules in it are the program's own
    #[arg(long = "dir", value_name = "HOST:GUEST[:ro|rw]")]
    pub dirs: Vec<DirGrantSpec>,

    /// The program's language, where its file name does not tell
    #[arg(long, value_name = "LANGUAGE")]
    pub lang: Option<Language>,

    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl ExplainArgs {
    /// Where the program is.
    pub(crate) fn program(&self) -> ProgramAt {
        match (&self.code, self.words.first()) {
            (Some(code), _) => ProgramAt::Inline(code.clone()),
            (None, Some(word)) if word != "-" => ProgramAt::File(PathBuf::from(word)),
            (None, _) => ProgramAt::Stdin,
        }
    }
}
