//! Arguments of `codebox kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use codebox_core::Language;

use super::session::{GrantArgs, PlaceArgs};
use super::tools::ToolArgs;
use super::values::LanguageParser;

/// Commands of `codebox kernel`.
#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    /// Make a kernel known to Jupyter
    ///
    /// Notebooks that use it run in a sandbox with the grants and limits of these options, which the kernel keeps. Relative paths, such as
    /// `--dir .`, are below the directory of the notebook. An earlier kernel of the same name is replaced.
    Install(Box<KernelInstallArgs>),
    /// Run a kernel, as Jupyter does
    Run(Box<KernelRunArgs>),
}

/// Arguments of `codebox kernel install`.
#[derive(Debug, Args)]
pub(crate) struct KernelInstallArgs {
    /// Name of the kernel [default: codebox- and the language]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Name that notebook editors show [default: the language, and "in a sandbox"]
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,

    /// Install below this directory, such as that of a virtual environment, instead of for the user
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,

    #[command(flatten)]
    pub kernel: KernelArgs,
}

impl KernelInstallArgs {
    /// Options that the kernel does not keep. Each has a value.
    pub(crate) const OWN: [&str; 3] = ["--name", "--display-name", "--prefix"];
}

/// Arguments of `codebox kernel run`.
#[derive(Debug, Args)]
pub(crate) struct KernelRunArgs {
    /// Connection file that Jupyter has written
    #[arg(value_name = "FILE")]
    pub connection_file: PathBuf,

    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// Arguments of a kernel.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// Language of the cells
    #[arg(long, value_name = "LANGUAGE", value_parser = LanguageParser, hide_possible_values = true, default_value = "python")]
    pub lang: Language,

    #[command(flatten)]
    pub place: PlaceArgs,

    #[command(flatten)]
    pub tools: ToolArgs,

    // This field is last because its help heading would also apply to the arguments that follow.
    #[command(flatten)]
    pub grants: GrantArgs,
}
