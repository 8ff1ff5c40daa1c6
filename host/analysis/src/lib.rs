//! Analysis of program text in a separate, confined process.
//!
//! The parsers of TypeScript, JavaScript and Python are large, and their input is hostile: a text may overflow the
//! stack, allocate without bound, take exponential time or abort the process. Therefore the process of codebox parses
//! no text. The parsers are in a small static program, the analyzer. It confines itself at its start and parses each
//! text in a process of its own, which has limits on memory and processor time and ends with the text.
//!
//! This crate contains the protocol between the two ([`protocol`]), the transferred values ([`Needs`],
//! [`StripRequest`]), and with the feature `client` the host's side: an [`Analyzer`], which starts that program and
//! sends it requests.
//!
//! # Examples
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().join("analyzer");
//! use codebox_analysis::{Analyzer, Budget};
//!
//! let analyzer = Analyzer::below(&folder);
//! let needs = analyzer.python_needs("import numpy\nimport threading\nthreading.Thread().start()", Budget::default())?;
//! assert!(needs.imports.contains("numpy"));
//! assert_eq!(needs.powers[0].words, "threading.Thread");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod capability;
mod needs;
#[doc(hidden)]
pub mod packages;
mod power;
pub mod protocol;
mod strip;

#[cfg(feature = "client")]
mod client;

pub use capability::Capability;
#[cfg(feature = "client")]
pub use client::{AnalysisError, Analyzer, Budget, ResourceUsage, StripResponse};
pub use needs::{
    FirstImport, MAX_FIRST_IMPORTS, MAX_IMPORT_LEN, MAX_PYTHON_LEN, MAX_SCRIPT_LEN, Needs, SyntaxError, may_have_needs,
    script_may_have_needs,
};
pub use power::{Need, Weight};
pub use strip::{StripFault, StripRequest, encode_fault, encode_program, split_answer};
