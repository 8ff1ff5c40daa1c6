//! Analysis of program text in a confined process of its own.
//!
//! Parsers of TypeScript, JavaScript and Python are large, and their input here is hostile: a text may be made to overflow
//! a stack, to allocate without end, to take time that doubles with every level, or to abort the process. So no text is
//! parsed in the process of codebox. A small static program, the analyzer, holds the parsers; it confines itself as it
//! starts and parses each text in a process that has limits on memory and processor time and ends with the text.
//!
//! This crate is the protocol between the two ([`protocol`]), the values that go over it ([`Needs`], [`StripRequest`]), and
//! with the feature `client` the side of the host: an [`Analyzer`], which starts that program and asks it.
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

mod needs;
#[doc(hidden)]
pub mod packages;
mod power;
pub mod protocol;
mod strip;

#[cfg(feature = "client")]
mod client;

#[cfg(feature = "client")]
pub use client::{AnalysisError, Analyzer, Budget, Stripped, Used};
pub use needs::{LONGEST_PYTHON, LONGEST_SCRIPT, Needs, SyntaxFault, can_need, script_can_need};
pub use power::{Need, Power, Weight};
pub use strip::{StripFault, StripRequest, encode_fault, encode_program, split_answer};
