use std::collections::BTreeSet;

use codebox_core::path::ProtectedDir;
use codebox_core::{ContainerPower, ImagePattern, IsolationSet, Languages, Limits, NetGrant};

use crate::config::DevContainerUse;
use crate::levels::LevelSetting;

/// Ceilings and permissions of the operator, and the defaults of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Limits of a request that sets none. [`Policy::ceilings`] take precedence over higher defaults.
    pub defaults: Limits,
    /// Highest limits that a request may set.
    pub ceilings: Limits,
    /// Isolations that may be used.
    pub isolations: IsolationSet,
    /// Memory image of a request that names none, for languages that have an image of this name.
    pub image: Option<String>,
    /// Escalation of programs from WebAssembly to a container.
    pub escalation: Escalation,
    /// Container images that may be used; `None` allows every image.
    pub allowed_images: Option<Vec<ImagePattern>>,
    /// Powers over this machine that containers may have which codebox has not made.
    pub container_powers: BTreeSet<ContainerPower>,
    /// Use of the dev container of a project.
    pub dev_container: DevContainerUse,
    /// Settings of the project and of the user, as they are shown to people. The other fields have their effect, but for their
    /// preferences.
    pub levels: Vec<LevelSetting>,
    /// Hosts that may be granted; `None` allows every host.
    pub allowed_hosts: Option<Vec<NetGrant>>,
    /// Preferred container engine.
    pub engine: Option<String>,
    /// Number of containers to keep ready for a request that does not set it.
    pub warm: Option<u32>,
    /// Languages of programs, with those of added runtimes.
    pub languages: Languages,
    /// Directories of this machine that no grant may expose, such as codebox's state and the home directory itself.
    pub protected: Vec<ProtectedDir>,
    /// Treatment of symbolic links below the working directory in the path of a directory.
    pub links: LinkPolicy,
}

/// Permission to run a program in a container because of its needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Escalation {
    /// A program that needs a container may run in one.
    #[default]
    Allowed,
    /// A program stays in WebAssembly even if it needs a container.
    Forbidden,
}

/// Treatment of symbolic links in the path of a granted directory or of the output directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkPolicy {
    /// A link at or below the working directory is refused, because an earlier job may have created it.
    #[default]
    Refuse,
    /// Links are followed.
    Follow,
}

impl Default for Policy {
    /// Returns a policy with the built-in limits, no ceilings, every isolation, and no additional protected
    /// directories.
    fn default() -> Self {
        Self {
            defaults: Limits::default(),
            ceilings: Limits::unlimited(),
            isolations: IsolationSet::auto(),
            image: None,
            escalation: Escalation::Allowed,
            allowed_images: None,
            container_powers: BTreeSet::new(),
            dev_container: DevContainerUse::default(),
            levels: Vec::new(),
            allowed_hosts: None,
            engine: None,
            warm: None,
            languages: Languages::default(),
            protected: Vec::new(),
            links: LinkPolicy::Refuse,
        }
    }
}
