//! Arguments of `codebox repl`.

use clap::Args;
use codebox_core::Language;

use super::session::GrantArgs;
use super::tools::ToolArgs;

/// Arguments of `codebox repl`.
#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// Language
    #[arg(long, value_name = "LANGUAGE", default_value = "python")]
    pub lang: Language,

    /// Keep the session at the end, and print its id
    #[arg(long)]
    pub keep: bool,

    #[command(flatten)]
    pub tools: ToolArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}
