//! Packages of npm: from what a user asks for to a directory that a guest finds as `node_modules`.
//!
//! [`npm_environment`] does all of it: it resolves [specs](NpmSpec) into an [`NpmTree`], or takes one that is locked, brings
//! every package into the [`NpmStore`] and puts them together in one read-only directory. What was made once is found again
//! by what it holds, without the network.
//!
//! Nothing of a package is ever run here: there are no install scripts. What arrives is believed only when its integrity is
//! the one that the registry, or the lock, announced. A package that holds machine code is told in
//! [`NpmEnvironment::native`]: only a container can use it.

mod builtin;
mod client;
mod environment;
mod error;
mod integrity;
mod kept;
mod layout;
mod metadata;
mod name;
mod native;
mod pick;
mod resolve;
mod settings;
mod spec;
mod store;
mod tarball;
mod target;
mod tree;

pub use builtin::node_module;
pub use environment::{NpmEnvironment, npm_environment};
pub use error::NpmError;
pub use integrity::{BadIntegrity, Integrity};
pub use kept::NpmKept;
pub use name::NpmName;
pub use native::{Native, NativePackage};
pub use settings::{NpmFiles, NpmSettings};
pub use spec::{BadNpmSpec, NpmSpec};
pub use store::NpmStore;
pub use tarball::unpack_tarball;
pub use tree::{BadTree, NpmPackage, NpmTree};
