//! Arguments of `codebox mcp`.

use clap::Args;
use codebox_core::Access;

use super::session::GrantArgs;
use super::tools::ToolArgs;

/// Arguments of `codebox mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Grant the roots of the client, with this access, at their own paths
    #[arg(long, value_name = "ACCESS", value_parser = access)]
    pub roots: Option<Access>,

    /// Let the client use all sessions of this user, with the grants that they have, and not only those that it has created
    #[arg(long)]
    pub all_sessions: bool,

    /// Let the client run commands in this box of the user; repeatable
    ///
    /// Its commands have the grants and limits of the box.
    #[arg(long = "box", value_name = "NAME")]
    pub boxes: Vec<String>,

    /// Maximum number of calls in progress; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_calls: u16,

    #[command(flatten)]
    pub tools: ToolArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}

fn access(text: &str) -> Result<Access, String> {
    match text {
        "ro" => Ok(Access::ReadOnly),
        "rw" => Ok(Access::ReadWrite),
        _ => Err("the access must be ro or rw".to_owned()),
    }
}
