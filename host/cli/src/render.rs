//! Formatting of values as lines of text. This module writes no output.

mod escaped;
mod explained;
mod outcome;
mod provenance;
mod shown;
mod table;
mod values;

pub(crate) use escaped::{Escaped, escape_json};
pub(crate) use explained::Explained;
pub(crate) use outcome::{notes, unaudited_line};
pub(crate) use provenance::explanation;
pub(crate) use shown::{shown, shown_one};
pub(crate) use table::Table;
pub(crate) use values::{bytes, time};
