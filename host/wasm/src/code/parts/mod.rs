//! Division of a module's code into parts that are compiled and loaded separately.
//!
//! Every function belongs to one part, and the parts have an order. A *primary module* holds the parts up to one of
//! them, and a *secondary module* holds one later part. The secondary module has no state of its own: it imports the
//! memory, the table, the globals and the tags of the primary module. All modules have the layout of the original one in
//! common: its addresses in memory and its indices in the table. A memory image that was made with one primary module
//! can therefore be used with any other that has at least the same parts.
//!
//! A program enters a later part only through its *entries*, functions with a known prefix. In modules without the
//! part, an entry is a stub: it calls the host function `codebox.load_parts`, which instantiates the secondary modules
//! up to that part, and then calls the real function through the table. Table slots of functions in missing parts are
//! null. An indirect call of one traps; the entries are chosen so that no program reaches such a slot before it has
//! called an entry of that part.

mod encode;
mod plan;
mod spec;

#[cfg(test)]
mod tests;

pub(crate) use encode::{FUNCTION_MODULE, LOAD_PARTS, PART_MODULE, PRIMARY_MODULE, TABLE};
pub(crate) use plan::Plan;
pub(crate) use spec::MAX_PARTS;
pub use spec::{PartSpec, SplitSpec};
