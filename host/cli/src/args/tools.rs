//! Options for host tools.

use clap::Args;
use codebox_core::ToolName;
use codebox_mcp::ServerCommand;

/// Host tools of programs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ToolArgs {
    /// Let the program call this tool of `config.toml` or `codebox.toml`, as `tools.NAME` of its module `codebox`; repeatable
    ///
    /// Calls are checked by the schemas of the tool.
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<ToolName>,

    /// Let the program call the tools of this MCP server, as `tools` of its module `codebox`; repeatable
    ///
    /// COMMAND starts the server, with its standard input and output as the connection; no shell runs. NAME becomes the prefix of its
    /// tools: `tools.NAME_search`. The server runs outside of the sandbox with the powers of this user, and the program may call all of
    /// its tools.
    #[arg(long, value_name = "[NAME=]COMMAND")]
    pub mcp: Vec<ServerCommand>,
}

impl ToolArgs {
    /// Returns true if programs have no tools.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.mcp.is_empty()
    }
}
