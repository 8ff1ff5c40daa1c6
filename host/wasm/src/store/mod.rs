//! Artefacts on disk: installed runtimes, their compiled code and their memory images.
//!
//! Compiled code is equivalent to a program: anyone who can change the file can run any code as this user. Artefacts
//! are therefore kept in directories of this user alone and are written as a whole (temporary name, then rename), and
//! each artefact is checked against a seal before it is mapped.

mod automatic;
mod entry;
mod estimate;
mod images;
mod install;
mod installation;
mod kept;
mod lock;
mod manifest;
mod pack;
mod prepare;
mod registry;
mod rest;
mod runtime;
mod seal;

pub use automatic::{AutomaticState, DraftDir, Drafted};
pub use entry::{RuntimeParts, RuntimeState, Store, StoreDirs};
pub use images::ImageEntry;
pub(crate) use install::ROOT_MOUNT_POINTS;
pub use installation::Installation;
pub(crate) use kept::KeptCode;
pub use registry::Registry;
pub use runtime::{BuiltInModule, ComponentFile, DataArchive, ImageRecipe, Package, RuntimeSpec};
pub use seal::sha256_of_file;
pub(crate) use seal::{sha256_of, write_sparse};
