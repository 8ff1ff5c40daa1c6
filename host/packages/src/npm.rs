//! npm packages: from a user's specs to a directory that a guest sees as `node_modules`.
//!
//! [`npm_environment`] runs all steps: it resolves [specs](NpmSpec) to an [`NpmTree`] or uses a locked one, downloads
//! every package into the [`NpmStore`], and assembles the packages in one read-only directory. An existing environment
//! is found by its content, without the network.
//!
//! No code of a package runs here: install scripts are not executed. A download is accepted only if its integrity is
//! the one that the registry, or the lock, lists. Packages with machine code are listed in [`NpmEnvironment::native`]:
//! only a container can use them.

mod builtin;
mod client;
mod environment;
mod error;
mod integrity;
mod inventory;
mod layout;
mod metadata;
mod name;
mod native;
mod package_lock;
mod pick;
mod resolve;
mod settings;
mod similar_names;
mod spec;
mod spec_error;
mod store;
mod tarball;
mod target;
mod tree;

pub(crate) use builtin::builtin_module;
pub use environment::{NpmEnvironment, npm_environment};
pub use error::NpmError;
pub use integrity::{Integrity, ParseIntegrityError};
pub use inventory::StoredNpmPackage;
pub use name::NpmName;
pub use native::{Native, NativePackage};
pub(crate) use package_lock::{parse_package_json, parse_package_lock};
pub use settings::{NpmFiles, NpmSettings};
pub use spec::NpmSpec;
pub use spec_error::ParseNpmSpecError;
pub use store::NpmStore;
pub use tarball::unpack_tarball;
pub use tree::{NpmPackage, NpmTree, NpmTreeError};
