//! Configuration files: the user's `config.toml` and a project's `codebox.toml`.
//!
//! Both have one form. The user's sets defaults, ceilings and what is allowed; a project's comes with the code
//! it is about, so it can only ask for less.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use codebox_core::path::Protected;
use codebox_core::{IsolationSet, LimitOverrides, Limits, MOST_WARM, NetGrant, ResultKind};
use serde::Deserialize;
use thiserror::Error;

use crate::admission::Policy;
use crate::choice::Escalation;

mod images;
mod limits;
mod network;
mod packages;

pub use images::Images;
pub use packages::{Building, Packages};

/// What a configuration file says, with every value checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The limits of requests that set none.
    pub limits: LimitOverrides,
    /// The highest limits that a request may set.
    pub ceilings: LimitOverrides,
    /// The isolations that may be used.
    pub isolations: Option<IsolationSet>,
    /// The image of requests that name none.
    pub image: Option<String>,
    /// Whether needs may lead a program to a container.
    pub escalation: Option<Escalation>,
    /// The container engine to prefer.
    pub engine: Option<String>,
    /// Container images.
    pub images: Images,
    /// How many containers are to be ready for later runs.
    pub warm: Option<u32>,
    /// The hosts that may be granted; any, where there is no list.
    pub allowed_hosts: Option<Vec<NetGrant>>,
    /// Which packages may be had, and from where.
    pub packages: Packages,
}

/// Why a configuration file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bad configuration in {}: {}{detail}", file.display(), if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The key, where one is at fault.
    pub key: String,
    /// What is wrong.
    pub detail: String,
    /// What to do.
    pub fix: String,
}

impl ConfigError {
    /// The one word for it, which also decides the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        ResultKind::InvalidRequest
    }

    fn new(file: &Path, key: impl Into<String>, detail: impl Display, fix: &str) -> Self {
        Self { file: file.to_owned(), key: key.into(), detail: detail.to_string(), fix: fix.to_owned() }
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    limits: limits::Table,
    ceilings: limits::Table,
    isolation: Option<String>,
    image: Option<String>,
    escalation: Option<String>,
    engine: Option<String>,
    images: images::Table,
    network: network::Table,
    warm: Option<u32>,
    packages: packages::Table,
}

impl Settings {
    /// Reads the text of a configuration file; `file` is for messages.
    ///
    /// # Errors
    /// When it is no TOML, has an unknown key, or a value that cannot be used.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let written: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let detail = format!("line {line}: {}", error.message().replace('\n', "; "));
            ConfigError::new(file, "", detail, "correct the file")
        })?;
        let File { limits, ceilings, isolation, image, escalation, engine, images, network, warm, packages } = written;
        let isolations = isolation.map(|text| text.parse()).transpose();
        Ok(Self {
            limits: limits.read("limits", file)?,
            ceilings: ceilings.read("ceilings", file)?,
            isolations: isolations.map_err(|error: codebox_core::NameError| {
                ConfigError::new(file, "isolation", error, "use auto, or names separated by commas")
            })?,
            image,
            escalation: escalation.map(|text| escalation_of(&text, file)).transpose()?,
            engine: engine.map(|text| engine_of(text, file)).transpose()?,
            images: images.read(file)?,
            warm: warm.map(|count| warm_of(count, file)).transpose()?,
            allowed_hosts: network.read(file)?,
            packages: packages.read(file)?,
        })
    }

    /// The policy that these settings come to.
    #[must_use]
    pub fn policy(&self, protected: Vec<Protected>) -> Policy {
        Policy {
            defaults: self.limits.over(Limits::default()),
            ceilings: self.ceilings.over(Limits::unlimited()),
            isolations: self.isolations.unwrap_or_default(),
            image: self.image.clone(),
            escalation: self.escalation.unwrap_or_default(),
            allowed_images: self.images.allowed.clone(),
            engine: self.engine.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            // None is what there is without this setting, too.
            warm: self.warm.filter(|count| *count > 0),
            endings: BTreeMap::new(),
            protected,
        }
    }
}

/// The user's settings, narrowed by a project's.
///
/// Of each limit and ceiling the lower holds, and of the isolations those in both. A project's image is taken
/// where the user's settings name none.
///
/// # Errors
/// When no isolation is left. `file` is the project's.
pub fn narrow(user: &Settings, project: &Settings, file: &Path) -> Result<Settings, ConfigError> {
    let ours = user.isolations.unwrap_or_default();
    let theirs = project.isolations.unwrap_or_default();
    let both = IsolationSet::of(ours.iter().filter(|isolation| theirs.contains(*isolation)));
    let isolations = both.ok_or_else(|| {
        let detail = format!("{theirs} is not among {ours}, which the user's configuration allows");
        ConfigError::new(file, "isolation", detail, "change one of the two files")
    })?;
    let images = user.images.narrowed(&project.images, file)?;
    let allowed_hosts = network::narrowed(user.allowed_hosts.as_ref(), project.allowed_hosts.as_ref(), file)?;
    // Whoever forbids it is heard.
    let escalation = match (user.escalation, project.escalation) {
        (Some(Escalation::Forbidden), _) | (_, Some(Escalation::Forbidden)) => Some(Escalation::Forbidden),
        (ours, theirs) => ours.or(theirs),
    };
    // A project can have fewer of the user's machine, and none where the user has said nothing.
    let warm = user.warm.map(|ours| ours.min(project.warm.unwrap_or(ours)));
    let said = user.isolations.is_some() || project.isolations.is_some();
    Ok(Settings {
        limits: limits::lower(&user.limits, &project.limits, &Limits::default()),
        ceilings: limits::lower(&user.ceilings, &project.ceilings, &Limits::unlimited()),
        isolations: said.then_some(isolations),
        image: user.image.clone().or_else(|| project.image.clone()),
        escalation,
        engine: user.engine.clone().or_else(|| project.engine.clone()),
        images,
        warm,
        allowed_hosts,
        packages: user.packages.narrowed(&project.packages, file)?,
    })
}

fn escalation_of(text: &str, file: &Path) -> Result<Escalation, ConfigError> {
    match text {
        "allow" => Ok(Escalation::Allowed),
        "forbid" => Ok(Escalation::Forbidden),
        other => Err(ConfigError::new(file, "escalation", format!("{other:?} is neither"), "write allow or forbid")),
    }
}

fn engine_of(text: String, file: &Path) -> Result<String, ConfigError> {
    if matches!(text.as_str(), "podman" | "docker") {
        return Ok(text);
    }
    Err(ConfigError::new(file, "engine", format!("{text:?} is neither"), "write podman or docker"))
}

fn warm_of(count: u32, file: &Path) -> Result<u32, ConfigError> {
    if count <= MOST_WARM {
        return Ok(count);
    }
    let fix = format!("write a number from 0 to {MOST_WARM}");
    Err(ConfigError::new(file, "warm", format!("{count} containers are too many to keep ready"), &fix))
}

fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
