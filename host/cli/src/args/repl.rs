//! Arguments of `codebox repl`.

use clap::Args;
use codebox_core::Language;

use super::session::{GrantArgs, PlaceArgs};
use super::tools::ToolArgs;
use super::values::LanguageParser;
use crate::images::Show;

/// Arguments of `codebox repl`.
#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// Language
    #[arg(long, value_name = "LANGUAGE", value_parser = LanguageParser, hide_possible_values = true, default_value = "python")]
    pub lang: Language,

    #[command(flatten)]
    pub place: PlaceArgs,

    /// Keep the session at the end, and print its id
    #[arg(long)]
    pub keep: bool,

    /// Draw images in the terminal, or save them, as in `codebox run`
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub show: Option<Show>,

    #[command(flatten)]
    pub tools: ToolArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}
