//! Configuration files: the user's `config.toml` and a project's `codebox.toml`.
//!
//! Both have the same format. The user's file sets defaults, ceilings and permissions. A project's file comes with the
//! code that codebox is to contain, so it can only restrict them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use codebox_core::path::ProtectedDir;
use codebox_core::{
    CONTAINER_ENGINES, IsolationSet, Languages, LimitOverrides, Limits, MAX_WARM_INSTANCES, NetGrant, ResultKind,
};
use serde::Deserialize;
use thiserror::Error;

use crate::admission::{Escalation, LinkPolicy, Policy, Preference};
use crate::image_choice::is_memory_image_name;
use crate::journal::Audit;
use crate::levels::{Level, LevelSetting};

mod containers;
mod files;
mod host;
mod images;
mod limits;
mod network;
mod packages;
mod read;
mod tools;
mod vm;

pub use containers::{Containers, DevContainerUse};
pub use files::{ConfigFiles, ConfigOrigin, ConfigValue};
pub use host::HostProcess;
pub use images::{Images, UnknownLanguage};
pub use packages::{BuildSetting, Packages, normalized_name};
pub use read::{SettingsError, read_project, read_user};
pub use tools::{SandboxedTool, ToolAction, ToolProgram, ToolSettings, Tools};
pub use vm::VirtualMachine;

/// Settings of a configuration file, with every value checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Limits of requests that set none.
    pub limits: LimitOverrides,
    /// Highest limits that a request may set.
    pub ceilings: LimitOverrides,
    /// Isolations that may be used.
    pub isolations: Option<IsolationSet>,
    /// Memory image of requests that name none, for languages that have it.
    pub image: Option<String>,
    /// Permission to escalate to a container.
    pub escalation: Option<Escalation>,
    /// Preferred container engine.
    pub engine: Option<String>,
    /// Container images.
    pub images: Images,
    /// Containers that codebox has not made.
    pub containers: Containers,
    /// Isolation that is preferred among the allowed ones.
    pub prefers: Option<Preference>,
    /// Settings of isolations of these files, as they are shown to people.
    pub levels: Vec<LevelSetting>,
    /// Number of containers to keep ready for later runs.
    pub warm: Option<u32>,
    /// Permission to make memory images for programs that run repeatedly.
    pub automatic_images: Option<bool>,
    /// Use of the audit log; `None` for the default.
    pub audit: Option<Audit>,
    /// Recording of the texts of programs in the audit log.
    pub audit_text: bool,
    /// Hosts that may be granted; `None` allows every host.
    pub allowed_hosts: Option<Vec<NetGrant>>,
    /// Allowed packages and their sources.
    pub packages: Packages,
    /// Host process of the command line.
    pub host: HostProcess,
    /// Virtual machine for containers.
    pub vm: VirtualMachine,
    /// Host tools that runs of the command line can be granted.
    pub tools: Tools,
}

/// Reason that a configuration file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid configuration in {}: {}{detail}", file.display(), if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ConfigError {
    /// Path of the file.
    pub file: PathBuf,
    /// Key with the fault; empty if the fault is not in a value.
    pub key: String,
    /// Description of the fault.
    pub detail: String,
    /// Remedy.
    pub fix: String,
}

impl ConfigError {
    /// Returns the result kind, which determines the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        ResultKind::InvalidRequest
    }

    fn new(file: &Path, key: impl Into<String>, detail: impl Display, fix: &str) -> Self {
        Self { file: file.to_owned(), key: key.into(), detail: detail.to_string(), fix: fix.to_owned() }
    }
}

/// Deserialized configuration file, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    limits: limits::Table,
    ceilings: limits::Table,
    isolation: Option<String>,
    #[serde(rename = "prefer-isolation", alias = "prefer_isolation")]
    prefer_isolation: Option<String>,
    image: Option<String>,
    escalation: Option<String>,
    engine: Option<String>,
    images: images::Table,
    containers: containers::Table,
    network: network::Table,
    warm: Option<u32>,
    #[serde(rename = "automatic-images")]
    automatic_images: Option<bool>,
    audit: Option<bool>,
    #[serde(rename = "require-audit", alias = "require_audit")]
    require_audit: Option<bool>,
    #[serde(rename = "audit-text", alias = "audit_text")]
    audit_text: bool,
    packages: packages::Table,
    host: host::Table,
    vm: vm::Table,
    tools: BTreeMap<String, tools::Table>,
}

impl Settings {
    /// Parses the text of a configuration file; `file` is used only in messages.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, or has an unknown key or an invalid value.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let written: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let detail = format!("line {line}: {}", error.message().replace('\n', "; "));
            ConfigError::new(file, "", detail, "correct the file")
        })?;
        let File {
            limits,
            ceilings,
            isolation,
            prefer_isolation,
            image,
            escalation,
            engine,
            images,
            containers,
            network,
            warm,
            automatic_images,
            audit,
            require_audit,
            audit_text,
            packages,
            host,
            vm,
            tools,
        } = written;
        let isolations = isolation.map(|text| text.parse()).transpose();
        let isolations = isolations.map_err(|error: codebox_core::NameError| {
            ConfigError::new(file, "isolation", error, "use auto, or names separated by commas")
        })?;
        let prefers = prefer_isolation.map(|text| match text.parse() {
            Ok(prefers @ Preference::Only(_)) => Ok(prefers),
            _ => {
                let detail = format!("invalid value {text:?}");
                Err(ConfigError::new(file, "prefer-isolation", detail, "use wasm, container or vm"))
            }
        });
        let prefers = prefers.transpose()?;
        Ok(Self {
            limits: limits.read("limits", file)?,
            ceilings: ceilings.read("ceilings", file)?,
            isolations,
            levels: level(Level::User, isolations, prefers, file),
            prefers,
            image: image.map(|name| image_of(name, file)).transpose()?,
            escalation: escalation.map(|text| escalation_of(&text, file)).transpose()?,
            engine: engine.map(|text| engine_of(text, file)).transpose()?,
            images: images.read(file)?,
            containers: containers.read(file)?,
            warm: warm.map(|count| warm_of(count, file)).transpose()?,
            automatic_images,
            audit: audit_of(audit, require_audit, file)?,
            audit_text,
            allowed_hosts: network.read(file)?,
            packages: packages.read(file)?,
            host: host.read(file)?,
            vm: vm.read(file)?,
            tools: tools::read(tools, file)?,
        })
    }

    /// Returns the policy that these settings define.
    #[must_use]
    pub fn policy(&self, protected: Vec<ProtectedDir>) -> Policy {
        Policy {
            defaults: self.limits.apply_to(Limits::default()),
            ceilings: self.ceilings.apply_to(Limits::unlimited()),
            isolations: self.isolations.unwrap_or_default(),
            image: self.image.clone(),
            escalation: self.escalation.unwrap_or_default(),
            allowed_images: self.images.allowed.clone(),
            container_powers: self.containers.powers.clone(),
            dev_container: self.containers.dev_container.unwrap_or_default(),
            levels: self.levels.clone(),
            engine: self.engine.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            // A count of 0 is the same as no setting.
            warm: self.warm.filter(|count| *count > 0),
            languages: Languages::default(),
            protected,
            links: LinkPolicy::Refuse,
        }
    }
}

/// Restricts the user's settings by a project's.
///
/// The lower of each limit and ceiling applies, and only the isolations in both files are allowed. The project's image
/// is used if the user's settings name none.
///
/// # Errors
/// Returns an error if no isolation remains, or if the project sets a value that only the user may set. `file` is the
/// project's.
pub fn narrow(user: &Settings, project: &Settings, file: &Path) -> Result<Settings, ConfigError> {
    let ours = user.isolations.unwrap_or_default();
    let theirs = project.isolations.unwrap_or_default();
    let both = IsolationSet::of(ours.iter().filter(|isolation| theirs.contains(*isolation)));
    let isolations = both.ok_or_else(|| {
        let detail = format!("{theirs} is not allowed by the user configuration, which allows {ours}");
        ConfigError::new(file, "isolation", detail, "change one of the two files")
    })?;
    let images = user.images.narrowed(&project.images, file)?;
    let allowed_hosts = network::narrowed(user.allowed_hosts.as_ref(), project.allowed_hosts.as_ref(), file)?;
    // Either file can forbid escalation.
    let escalation = match (user.escalation, project.escalation) {
        (Some(Escalation::Forbidden), _) | (_, Some(Escalation::Forbidden)) => Some(Escalation::Forbidden),
        (ours, theirs) => ours.or(theirs),
    };
    // A project can lower the user's count, and cannot set one if the user has not.
    let warm = user.warm.map(|ours| ours.min(project.warm.unwrap_or(ours)));
    // Either file can disable them.
    let automatic_images = match (user.automatic_images, project.automatic_images) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (ours, theirs) => ours.or(theirs),
    };
    let said = user.isolations.is_some() || project.isolations.is_some();
    Ok(Settings {
        limits: limits::lower(&user.limits, &project.limits, &Limits::default()),
        ceilings: limits::lower(&user.ceilings, &project.ceilings, &Limits::unlimited()),
        isolations: said.then_some(isolations),
        image: user.image.clone().or_else(|| project.image.clone()),
        escalation,
        engine: user.engine.clone().or_else(|| project.engine.clone()),
        images,
        containers: user.containers.narrowed(&project.containers, file)?,
        prefers: project.prefers.or(user.prefers),
        levels: level(Level::Project, project.isolations, project.prefers, file)
            .into_iter()
            .chain(user.levels.iter().cloned())
            .collect(),
        warm,
        automatic_images,
        // A project can require it, and cannot turn it off.
        audit: user.audit.max(project.audit.map(|audit| audit.max(user.audit.unwrap_or_default()))),
        // A project can neither turn it on nor off.
        audit_text: user.audit_text,
        allowed_hosts,
        packages: user.packages.narrowed(&project.packages, file)?,
        host: user.host.narrowed(&project.host, file)?,
        vm: user.vm.narrowed(&project.vm, file)?,
        tools: tools::narrowed(&user.tools, &project.tools, file)?,
    })
}

/// Returns the setting of a file, if it has one.
fn level(
    level: Level,
    isolations: Option<IsolationSet>,
    prefers: Option<Preference>,
    file: &Path,
) -> Vec<LevelSetting> {
    let requires = isolations.map(Preference::Among);
    let setting = LevelSetting { level, requires, prefers, source: file.display().to_string() };
    if requires.is_some() || prefers.is_some() { vec![setting] } else { Vec::new() }
}

fn audit_of(audit: Option<bool>, required: Option<bool>, file: &Path) -> Result<Option<Audit>, ConfigError> {
    match (audit, required) {
        (Some(false), Some(true)) => {
            Err(ConfigError::new(file, "require-audit", "the audit log is turned off", "remove audit = false"))
        }
        (Some(false), _) => Ok(Some(Audit::Off)),
        (_, Some(true)) => Ok(Some(Audit::Required)),
        (Some(true), _) => Ok(Some(Audit::On)),
        (None, _) => Ok(None),
    }
}

fn escalation_of(text: &str, file: &Path) -> Result<Escalation, ConfigError> {
    match text {
        "allow" => Ok(Escalation::Allowed),
        "forbid" => Ok(Escalation::Forbidden),
        other => Err(ConfigError::new(file, "escalation", format!("unknown value {other:?}"), "use allow or forbid")),
    }
}

/// Checks the name of a memory image. The images themselves are not known here.
fn image_of(name: String, file: &Path) -> Result<String, ConfigError> {
    if is_memory_image_name(&name) {
        return Ok(name);
    }
    let fix = "name one of codebox image list; container images are set in [images]";
    Err(ConfigError::new(file, "image", format!("{name:?} is not the name of a memory image"), fix))
}

fn engine_of(text: String, file: &Path) -> Result<String, ConfigError> {
    if CONTAINER_ENGINES.contains(&text.as_str()) {
        return Ok(text);
    }
    let fix = format!("use {}", CONTAINER_ENGINES.join(" or "));
    Err(ConfigError::new(file, "engine", format!("unknown value {text:?}"), &fix))
}

fn warm_of(count: u32, file: &Path) -> Result<u32, ConfigError> {
    if count <= MAX_WARM_INSTANCES {
        return Ok(count);
    }
    let fix = format!("write a number from 0 to {MAX_WARM_INSTANCES}");
    Err(ConfigError::new(file, "warm", format!("{count} warm containers are too many"), &fix))
}

fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
