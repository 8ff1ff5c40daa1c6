//! One engine: its connection, and what it said of itself.

use std::fmt;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use codebox_core::{BackendId, with_causes};

use crate::discover::{Candidate, Chosen, Place};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::notes::Notes;

/// How long an engine may take to answer a call that does no long work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long an engine may take to say what it is: one of them counts all that it has for it.
const INTRODUCTION: Duration = Duration::from_secs(20);

/// How long an engine may take for a call that makes or starts something.
pub(crate) const LONG: Duration = Duration::from_secs(45);

/// Which engine answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Flavour {
    /// Podman.
    Podman,
    /// Docker, or what behaves as it.
    Docker,
}

impl Flavour {
    /// Both, in the order of preference.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// The name in options and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// The backend's name.
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

/// A connection that answered.
#[derive(Clone)]
pub(crate) struct Engine {
    pub client: Docker,
    pub facts: EngineFacts,
}

impl Engine {
    /// The first of the places where an engine of this flavour answers. Starts nothing.
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
                    // Whoever named it does not mean another.
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

    /// Nothing where nothing is, or the other engine; an error where something is that does not answer.
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
            return Err(Unreached::silent("it did not answer a moment ago".to_owned()));
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
                Err(Unreached::silent(format!("it does not answer within {} s", patience.as_secs())))
            }
        }
    }
}

/// Why there is no engine at a place.
struct Unreached {
    why: String,
    how: How,
}

/// What kind of absence it is, which decides what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// None listens there.
    Away,
    /// There may be one, and this user may not talk to it.
    Denied,
    /// One listens, and says nothing.
    Silent,
    /// The user named the place, by this.
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

/// The user whose process listens at a place, where that can be told.
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
    let socket = connected.map_err(|_| Unreached::silent("it takes no connection".to_owned()))?.map_err(failed)?;
    socket.peer_cred().map(|peer| Some(peer.uid())).map_err(failed)
}

#[cfg(not(unix))]
async fn listener(_place: &Place) -> Result<Option<u32>, Unreached> {
    Ok(None)
}

/// A client for a place, in the version of the interface that is known to be spoken there.
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
            let text = path.to_str().ok_or("its path is not UTF-8")?;
            Docker::connect_with_unix(text, seconds, version)
        }
        Place::Tcp(address) => Docker::connect_with_http(address, seconds, version),
    };
    client.map_err(|error| error.to_string())
}

fn none(flavour: Flavour, reasons: &[Unreached]) -> ContainerError {
    let fix = fix(flavour, reasons);
    if reasons.is_empty() {
        return ContainerError::NoEngine { reason: format!("no {flavour} socket is there"), fix, silent: false };
    }
    let whys: Vec<&str> = reasons.iter().map(|reason| reason.why.as_str()).collect();
    // Who may not talk to an engine has nothing there.
    let silent = reasons.iter().any(|reason| reason.how != How::Denied);
    ContainerError::NoEngine { reason: format!("no {flavour} answers ({})", whys.join("; ")), fix, silent }
}

/// What helps against the most telling of the reasons.
fn fix(flavour: Flavour, reasons: &[Unreached]) -> String {
    let named = reasons.iter().find_map(|reason| match &reason.how {
        How::Named(by) => Some(by),
        _ => None,
    });
    if let Some(by) = named {
        return format!("have {by} name a place where {flavour} listens, or take it away");
    }
    let is = |how| reasons.iter().any(|reason| reason.how == how);
    match flavour {
        _ if is(How::Silent) => format!("see why {flavour} does not answer, and restart it"),
        Flavour::Podman if is(How::Denied) => {
            "start one of your own: systemctl --user enable --now podman.socket".to_owned()
        }
        Flavour::Docker if is(How::Denied) => {
            "have this user added to the group docker, which is as much as root, or use podman".to_owned()
        }
        Flavour::Podman => {
            "install podman and start it: systemctl --user enable --now podman.socket (as root without --user)"
                .to_owned()
        }
        Flavour::Docker => "install docker and start it, or name its socket with DOCKER_HOST".to_owned(),
    }
}
