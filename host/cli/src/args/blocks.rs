//! Arguments of `codebox blocks`.

use std::path::PathBuf;

use clap::Args;

use super::session::GrantArgs;
use super::show::ShowArgs;
use super::tools::ToolArgs;

/// Arguments of `codebox blocks`.
#[derive(Debug, Args)]
pub(crate) struct BlocksArgs {
    /// Markdown file, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Run each block as a program of its own, which may run in a container, instead of in a session of its language
    #[arg(long)]
    pub isolated: bool,

    /// Go on after a block that failed
    #[arg(long)]
    pub keep_going: bool,

    /// Print the results as short Markdown for the author of the text, such as a model, instead of streaming the output
    #[arg(long, conflicts_with = "json")]
    pub feedback: bool,

    /// Print one JSON document with the results of all blocks, instead of streaming the output
    #[arg(long)]
    pub json: bool,

    /// Install this npm package for blocks in JavaScript and TypeScript; repeatable
    #[arg(long, value_name = "PACKAGE", allow_hyphen_values = true)]
    pub with_npm: Vec<String>,

    /// Container image for blocks of `sh` and `bash`
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    #[command(flatten)]
    pub show: ShowArgs,

    #[command(flatten)]
    pub tools: ToolArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}
