//! What a keeper and who asks it say to each other: a line of JSON each, and then the line to the agent.

use std::path::PathBuf;

use codebox_core::Access;
use serde::{Deserialize, Serialize};

use super::Shape;
use crate::caller::JobUser;
use crate::mounts::Bind;

/// The longest line that either believes.
pub(crate) const LONGEST: u64 = 1 << 20;

/// How many containers of which shape are to be ready; one of them is taken if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// What tells builds of codebox apart.
    pub build: String,
    /// Where the engine is.
    pub place: String,
    pub count: u32,
    pub shape: Shape,
}

/// What a keeper answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answered {
    /// The container is lent until the connection ends; what follows comes from its agent.
    Lent(Lease),
    /// None is ready.
    None,
    /// The keeper ends: it is of another build, or is to keep nothing.
    Ending,
}

/// A container that is lent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub container: String,
    pub user: JobUser,
    /// Where its private directories are.
    pub scratch: PathBuf,
    pub granted: Vec<Shown>,
}

/// A granted directory as it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    host: PathBuf,
    guest: String,
    writable: bool,
}

impl From<&Bind> for Shown {
    fn from(bind: &Bind) -> Self {
        let Bind { host, guest, access } = bind;
        Self { host: host.clone(), guest: guest.clone(), writable: *access == Access::ReadWrite }
    }
}

impl From<Shown> for Bind {
    fn from(shown: Shown) -> Self {
        let Shown { host, guest, writable } = shown;
        Self { host, guest, access: if writable { Access::ReadWrite } else { Access::ReadOnly } }
    }
}
