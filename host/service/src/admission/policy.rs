use std::collections::BTreeMap;

use codebox_core::path::Protected;
use codebox_core::{ImagePattern, IsolationSet, Language, Limits, NetGrant};

use crate::choice::Escalation;

/// What the operator allows, and what holds where a request says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The limits of a request that sets none; never above [`Policy::ceilings`], which win.
    pub defaults: Limits,
    /// The highest limits that a request may set.
    pub ceilings: Limits,
    /// The isolations that may be used.
    pub isolations: IsolationSet,
    /// The image of a request that names none.
    pub image: Option<String>,
    /// Whether a program's needs may lead it from WebAssembly to a container.
    pub escalation: Escalation,
    /// The container images that may be used; any, where there is no list.
    pub allowed_images: Option<Vec<ImagePattern>>,
    /// The hosts that may be granted; any, where there is no list.
    pub allowed_hosts: Option<Vec<NetGrant>>,
    /// The engine to prefer.
    pub engine: Option<String>,
    /// How many containers are to be ready where a request says nothing of that.
    pub warm: Option<u32>,
    /// Languages of added runtimes by the endings of their files.
    pub endings: BTreeMap<String, Language>,
    /// Directories of this machine that no grant may expose: codebox's state, the home directory itself.
    pub protected: Vec<Protected>,
}

impl Default for Policy {
    /// The built-in limits without ceilings, every isolation, and nothing protected but what always is.
    fn default() -> Self {
        Self {
            defaults: Limits::default(),
            ceilings: Limits::unlimited(),
            isolations: IsolationSet::auto(),
            image: None,
            escalation: Escalation::Allowed,
            allowed_images: None,
            allowed_hosts: None,
            engine: None,
            warm: None,
            endings: BTreeMap::new(),
            protected: Vec::new(),
        }
    }
}
