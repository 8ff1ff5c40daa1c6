//! Option for images.

use clap::Args;

use crate::images::Show;

/// Destination of images of rich results.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ShowArgs {
    /// Draw figures and other images in the terminal, or save them in the working directory if it cannot draw them
    ///
    /// Also prints the other objects that the program displays, and the value of its last expression. Files are named `codebox-1.png` and so
    /// on; none is replaced.
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "auto", conflicts_with = "json")]
    pub show: Option<Show>,
}
