//! The code blocks of a Markdown text, as language models write them: [`parse`] finds them, [`run`] executes them in order, and
//! [`feedback`] describes the results for the author of the text.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod feedback;
mod notebook;
mod ordered;
mod parse;
mod report;
mod run;

pub use notebook::{Notebook, ipython_command, without_inline_magics};
pub use parse::{Block, BlockLanguage, MAX_BLOCKS, parse};
pub use report::{BlockReport, BlockStatus, BlocksReport};
pub use run::{Observer, Options, Silent, run};
