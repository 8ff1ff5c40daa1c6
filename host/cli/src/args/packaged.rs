use clap::Args;

use super::run::RunArgs;

/// Arguments of `codebox x`.
#[derive(Debug, Args)]
pub(crate) struct PackagedArgs {
    /// Package that has the program, if it is not named like the program
    #[arg(long, value_name = "PACKAGE", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// Take the program from a package of npm instead of one of Python
    #[arg(long)]
    pub npm: bool,

    /// Give the program no copies of the current directory
    #[arg(long, conflicts_with = "project")]
    pub no_project: bool,

    // Its headings would also apply to arguments that follow.
    #[command(flatten)]
    pub run: RunArgs,
}
