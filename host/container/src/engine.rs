//! Connection to an engine, and the facts about it.

use std::fmt;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use codebox_core::{BackendId, with_causes};

use crate::discover::{Candidate, Chosen, Place};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::notes::Notes;

/// Timeout of an engine call without lengthy work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Timeout for an engine to report its facts. One of the engines counts everything that it stores for this report.
const INTRODUCTION: Duration = Duration::from_secs(20);

/// Timeout of an engine call that creates or starts something.
pub(crate) const LONG: Duration = Duration::from_secs(45);

/// The kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Flavour {
    /// Podman.
    Podman,
    /// Docker, or an engine that behaves like it.
    Docker,
}

impl Flavour {
    /// Both kinds, in the order of preference.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name in options and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns the id of the backend.
    #[must_use]
    pub const fn id(self) -> BackendId {
        BackendId::new(self.as_str())
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Flavour {
    type Err = codebox_core::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|flavour| flavour.as_str() == text);
        known.ok_or_else(|| codebox_core::NameError::new("engine", text, "use podman or docker"))
    }
}

/// Connection to an engine that has answered.
#[derive(Clone)]
pub(crate) struct Engine {
    pub client: Docker,
    pub facts: EngineFacts,
}

impl Engine {
    /// Returns the first candidate at which an engine of this flavour answers. Starts no engine.
    pub(crate) async fn find(
        flavour: Flavour,
        candidates: &[Candidate],
        notes: &Notes,
    ) -> Result<Self, ContainerError> {
        let mut reasons = Vec::new();
        for candidate in candidates {
            match Self::at(flavour, candidate, notes).await {
                Ok(Some(engine)) if engine.facts.flavour == flavour => return Ok(engine),
                Ok(_) => {}
                Err(Unreached { why, how }) => {
                    // A candidate that the user has named excludes all later ones.
                    let named = candidate.chosen == Chosen::ByUser(flavour);
                    let how = if named { How::Named(candidate.named_by.clone()) } else { how };
                    reasons.push(Unreached { why: format!("{}: {why}", candidate.named_by), how });
                    if named {
                        break;
                    }
                }
            }
        }
        Err(none(flavour, &reasons))
    }

    /// Connects to the engine at a candidate.
    ///
    /// Returns `None` if no socket exists at a common location, or if the engine there is known to be of the other
    /// flavour. Returns an error if the candidate does not answer.
    async fn at(flavour: Flavour, candidate: &Candidate, notes: &Notes) -> Result<Option<Self>, Unreached> {
        if let Place::Unix(path) = &candidate.place {
            let there = std::fs::symlink_metadata(path).is_ok();
            if !there && candidate.chosen == Chosen::ByHabit {
                return Ok(None);
            }
        }
        let known =
            notes.read(&candidate.place).map(|facts| EngineFacts { named_by: candidate.named_by.clone(), ..facts });
        if known.as_ref().is_some_and(|facts| facts.flavour != flavour) {
            return Ok(None);
        }
        if notes.is_silent(&candidate.place) {
            return Err(Unreached::silent("timed out a moment ago".to_owned()));
        }
        let listener = listener(&candidate.place).await?;
        let client = client(&candidate.place, known.as_ref()).map_err(Unreached::because)?;
        let patience = if known.is_some() { 2 * PATIENCE } else { INTRODUCTION };
        let asked = tokio::time::timeout(patience, async {
            if let Some(facts) = known {
                client.ping().await?;
                return Ok::<_, bollard::errors::Error>(Self { client, facts });
            }
            let client = client.negotiate_version().await?;
            let facts = EngineFacts::ask(&client, candidate, listener).await?;
            notes.write(&candidate.place, &facts);
            Ok(Self { client, facts })
        });
        match asked.await {
            Ok(Ok(engine)) => Ok(Some(engine)),
            Ok(Err(error)) => Err(Unreached::because(crate::error::one_line(&with_causes(&error)))),
            Err(_) => {
                notes.silent(&candidate.place);
                Err(Unreached::silent(format!("timed out after {} s", patience.as_secs())))
            }
        }
    }
}

/// Reason for which no engine was reached at an address.
struct Unreached {
    why: String,
    how: How,
}

/// Kind of failure, which determines the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// No engine listens there.
    Away,
    /// An engine may listen there, but this user is not allowed to connect.
    Denied,
    /// A process listens there but does not answer.
    Silent,
    /// Any failure at an address that the user has named, with the origin of the address.
    Named(String),
}

impl Unreached {
    fn because(why: String) -> Self {
        Self { why, how: How::Away }
    }

    fn silent(why: String) -> Self {
        Self { why, how: How::Silent }
    }
}

/// Returns the user whose process listens at an address, if the system reports it.
#[cfg(unix)]
async fn listener(place: &Place) -> Result<Option<u32>, Unreached> {
    let Place::Unix(path) = place else { return Ok(None) };
    let failed = |error: std::io::Error| Unreached {
        why: format!("{}: {error}", path.display()),
        how: match error.kind() {
            std::io::ErrorKind::PermissionDenied => How::Denied,
            _ => How::Away,
        },
    };
    let connected = tokio::time::timeout(PATIENCE, tokio::net::UnixStream::connect(path)).await;
    let socket = connected.map_err(|_| Unreached::silent("timed out while connecting".to_owned()))?.map_err(failed)?;
    socket.peer_cred().map(|peer| Some(peer.uid())).map_err(failed)
}

#[cfg(not(unix))]
async fn listener(_place: &Place) -> Result<Option<u32>, Unreached> {
    Ok(None)
}

/// Creates a client for an address, with the API version that the engine there is known to support.
fn client(place: &Place, known: Option<&EngineFacts>) -> Result<Docker, String> {
    let seconds = LONG.as_secs();
    let version = known.and_then(|facts| {
        let (major, minor) = facts.api.split_once('.')?;
        Some(ClientVersion { major_version: major.parse().ok()?, minor_version: minor.parse().ok()? })
    });
    let version = version.as_ref().unwrap_or(API_DEFAULT_VERSION);
    let client = match place {
        Place::Unusable(why) => return Err(why.clone()),
        Place::Unix(path) => {
            let text = path.to_str().ok_or("path is not UTF-8")?;
            Docker::connect_with_unix(text, seconds, version)
        }
        Place::Tcp(address) => Docker::connect_with_http(address, seconds, version),
    };
    client.map_err(|error| error.to_string())
}

fn none(flavour: Flavour, reasons: &[Unreached]) -> ContainerError {
    let fix = fix(flavour, reasons);
    if reasons.is_empty() {
        return ContainerError::NoEngine { reason: format!("no {flavour} socket found"), fix, silent: false };
    }
    let whys: Vec<&str> = reasons.iter().map(|reason| reason.why.as_str()).collect();
    // An engine that rejects this user is not expected to answer.
    let silent = reasons.iter().any(|reason| reason.how != How::Denied);
    ContainerError::NoEngine { reason: format!("cannot connect to {flavour} ({})", whys.join("; ")), fix, silent }
}

/// Returns a fix for the most significant of the reasons.
fn fix(flavour: Flavour, reasons: &[Unreached]) -> String {
    let named = reasons.iter().find_map(|reason| match &reason.how {
        How::Named(by) => Some(by),
        _ => None,
    });
    if let Some(by) = named {
        return format!("set {by} to an address where {flavour} listens, or remove it");
    }
    let is = |how| reasons.iter().any(|reason| reason.how == how);
    match flavour {
        _ if is(How::Silent) => format!("check why {flavour} does not respond, and restart it"),
        Flavour::Podman if is(How::Denied) => {
            "start a user service: systemctl --user enable --now podman.socket".to_owned()
        }
        Flavour::Docker if is(How::Denied) => {
            "add this user to the docker group, which is equivalent to root access, or use podman".to_owned()
        }
        Flavour::Podman => {
            "install podman and start it: systemctl --user enable --now podman.socket (as root without --user)"
                .to_owned()
        }
        Flavour::Docker => "install docker and start it, or name its socket with DOCKER_HOST".to_owned(),
    }
}
