//! Connection to an engine, and the facts about it.

use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use codebox_core::{BackendId, Isolation, format_error_chain};

use crate::caller::{Caller, caller};
use crate::discover::{AddressOrigin, Candidate, EngineAddress};
use crate::engine_machine::{EngineMachine, MachineEngine};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::facts_cache::FactsCache;
use crate::flavour::Flavour;

/// Timeout of an engine call without lengthy work.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for an engine to report its facts. One of the engines counts everything that it stores for this report.
const INFO_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of an engine call that creates or starts something.
pub(crate) const CREATE_TIMEOUT: Duration = Duration::from_secs(45);

/// Timeout of such a call in a virtual machine.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(180);

/// Connection to an engine that has answered.
#[derive(Clone)]
pub(crate) struct Engine {
    pub client: Docker,
    pub facts: EngineFacts,
    /// Virtual machine of the engine; `None` if it runs on this machine.
    pub machine: Option<EnginePlace>,
}

/// Virtual machine of an engine, and the user that the engine belongs to in it.
#[derive(Clone)]
pub(crate) struct EnginePlace {
    pub machine: Arc<dyn EngineMachine>,
    /// Group for its containers.
    pub group: String,
    user: u32,
}

/// Id of the backend whose engine is in a virtual machine.
pub(crate) const MACHINE_BACKEND: BackendId = BackendId::new("vm");

impl Engine {
    /// Returns the first candidate at which an engine of this flavour answers. Starts no engine.
    #[tracing::instrument(level = "debug", name = "connect_engine", skip_all)]
    pub(crate) async fn find(
        flavour: Flavour,
        candidates: &[Candidate],
        facts_cache: &FactsCache,
    ) -> Result<Self, ContainerError> {
        let mut reasons = Vec::new();
        for candidate in candidates {
            match Self::at(flavour, candidate, facts_cache).await {
                Ok(Some(engine)) if engine.facts.flavour == flavour => return Ok(engine),
                Ok(_) => {}
                Err(UnreachableEngine { why, failure }) => {
                    // A candidate that the user has named excludes all later ones.
                    let named = candidate.origin == AddressOrigin::ByUser(flavour);
                    let failure = if named { ConnectFailure::Named(candidate.named_by.clone()) } else { failure };
                    reasons.push(UnreachableEngine { why: format!("{}: {why}", candidate.named_by), failure });
                    if named {
                        break;
                    }
                }
            }
        }
        Err(no_engine_error(flavour, &reasons))
    }

    /// Connects to the engine of a virtual machine that runs.
    pub(crate) async fn in_machine(
        machine: &Arc<dyn EngineMachine>,
        found: &MachineEngine,
        facts_cache: &FactsCache,
    ) -> Result<Self, ContainerError> {
        let candidate = Candidate {
            place: EngineAddress::Unix(found.socket.clone()),
            named_by: "the virtual machine".to_owned(),
            origin: AddressOrigin::InMachine { user: found.user },
        };
        let failed = |reason: String| ContainerError::NoEngine {
            reason: format!("Podman in the virtual machine does not answer: {reason}"),
            fix: "see codebox vm logs, and restart it with codebox vm down".to_owned(),
            unresponsive: true,
        };
        match Self::at(Flavour::Podman, &candidate, facts_cache).await {
            Ok(Some(engine)) => {
                let place = EnginePlace { machine: Arc::clone(machine), group: found.group.clone(), user: found.user };
                // Podman counts no swap there because there is none, so that memory is all that a job can take.
                let facts = EngineFacts { counts_swap: true, ..engine.facts };
                Ok(Self { machine: Some(place), facts, ..engine })
            }
            Ok(None) => Err(failed("its socket is missing".to_owned())),
            Err(UnreachableEngine { why, .. }) => Err(failed(why)),
        }
    }

    /// Returns the id of the backend.
    pub(crate) fn id(&self) -> BackendId {
        if self.machine.is_some() { MACHINE_BACKEND } else { self.facts.flavour.id() }
    }

    /// Returns the isolation of its containers.
    pub(crate) fn isolation(&self) -> Isolation {
        if self.machine.is_some() { Isolation::Vm } else { Isolation::Container }
    }

    /// Returns the timeout of a call that creates or starts something. The first container of an image takes long in a machine whose instructions
    /// are translated.
    pub(crate) fn create_timeout(&self) -> Duration {
        if self.machine.is_some() { MACHINE_TIMEOUT } else { CREATE_TIMEOUT }
    }

    /// Returns the user whose files its containers see: this one, or the user of the engine in its virtual machine.
    pub(crate) fn caller(&self) -> Caller {
        match &self.machine {
            Some(EnginePlace { user, .. }) => Caller { uid: *user, gid: *user },
            None => caller(),
        }
    }

    /// Connects to the engine at a candidate.
    ///
    /// Returns `None` if no socket exists at a common location, or if the engine there is known to be of the other
    /// flavour. Returns an error if the candidate does not answer.
    async fn at(
        flavour: Flavour,
        candidate: &Candidate,
        facts_cache: &FactsCache,
    ) -> Result<Option<Self>, UnreachableEngine> {
        if let EngineAddress::Unix(path) = &candidate.place {
            let exists = std::fs::symlink_metadata(path).is_ok();
            if !exists && candidate.origin == AddressOrigin::WellKnown {
                return Ok(None);
            }
        }
        let known = facts_cache
            .read(&candidate.place)
            .map(|facts| EngineFacts { named_by: candidate.named_by.clone(), ..facts });
        if known.as_ref().is_some_and(|facts| facts.flavour != flavour) {
            return Ok(None);
        }
        if facts_cache.is_unresponsive(&candidate.place) {
            return Err(UnreachableEngine::unresponsive("timed out recently".to_owned()));
        }
        let listener = match candidate.origin {
            // The process that listens here is not the engine.
            AddressOrigin::InMachine { user } => Some(user),
            AddressOrigin::ByUser(_) | AddressOrigin::WellKnown => listener(&candidate.place).await?,
        };
        let timeout = match candidate.origin {
            AddressOrigin::InMachine { .. } => MACHINE_TIMEOUT,
            AddressOrigin::ByUser(_) | AddressOrigin::WellKnown => CREATE_TIMEOUT,
        };
        let client = client(&candidate.place, known.as_ref(), timeout).map_err(UnreachableEngine::not_listening)?;
        // The facts of a rootless engine have its ID ranges.
        let _lock = match &known {
            None => facts_cache.lock_id_ranges(&candidate.place.to_string()).await,
            Some(_) => None,
        };
        let time_limit = if known.is_some() { 2 * CALL_TIMEOUT } else { INFO_TIMEOUT };
        let attempt = tokio::time::timeout(time_limit, async {
            if let Some(facts) = known {
                client.ping().await?;
                return Ok::<_, bollard::errors::Error>(Self { client, facts, machine: None });
            }
            let client = client.negotiate_version().await?;
            let facts = EngineFacts::query(&client, candidate, listener).await?;
            facts_cache.write(&candidate.place, &facts);
            Ok(Self { client, facts, machine: None })
        });
        match attempt.await {
            Ok(Ok(engine)) => Ok(Some(engine)),
            Ok(Err(error)) => {
                Err(UnreachableEngine::not_listening(crate::error::one_line(&format_error_chain(&error))))
            }
            Err(_) => {
                facts_cache.unresponsive(&candidate.place);
                Err(UnreachableEngine::unresponsive(format!("timed out after {} s", time_limit.as_secs())))
            }
        }
    }
}

/// Reason for which no engine was reached at an address.
struct UnreachableEngine {
    why: String,
    failure: ConnectFailure,
}

/// Kind of failure, which determines the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ConnectFailure {
    /// No engine listens there.
    NotListening,
    /// An engine may listen there, but this user is not allowed to connect.
    Denied,
    /// A process listens there but does not answer.
    Unresponsive,
    /// Any failure at an address that the user has named, with the origin of the address.
    Named(String),
}

impl UnreachableEngine {
    fn not_listening(why: String) -> Self {
        Self { why, failure: ConnectFailure::NotListening }
    }

    fn unresponsive(why: String) -> Self {
        Self { why, failure: ConnectFailure::Unresponsive }
    }
}

/// Returns the user whose process listens at an address, if the system reports it.
#[cfg(unix)]
async fn listener(place: &EngineAddress) -> Result<Option<u32>, UnreachableEngine> {
    let EngineAddress::Unix(path) = place else { return Ok(None) };
    let failed = |error: std::io::Error| UnreachableEngine {
        why: format!("{}: {error}", path.display()),
        failure: match error.kind() {
            std::io::ErrorKind::PermissionDenied => ConnectFailure::Denied,
            _ => ConnectFailure::NotListening,
        },
    };
    let connected = tokio::time::timeout(CALL_TIMEOUT, tokio::net::UnixStream::connect(path)).await;
    let socket = connected
        .map_err(|_| UnreachableEngine::unresponsive("timed out while connecting".to_owned()))?
        .map_err(failed)?;
    socket.peer_cred().map(|peer| Some(peer.uid())).map_err(failed)
}

#[cfg(not(unix))]
async fn listener(_place: &EngineAddress) -> Result<Option<u32>, UnreachableEngine> {
    Ok(None)
}

/// Creates a client for an address, with the API version that the engine there is known to support.
fn client(place: &EngineAddress, known: Option<&EngineFacts>, timeout: Duration) -> Result<Docker, String> {
    let seconds = timeout.as_secs();
    let version = known.and_then(|facts| {
        let (major, minor) = facts.api.split_once('.')?;
        Some(ClientVersion { major_version: major.parse().ok()?, minor_version: minor.parse().ok()? })
    });
    let version = version.as_ref().unwrap_or(API_DEFAULT_VERSION);
    let client = match place {
        EngineAddress::Unusable(why) => return Err(why.clone()),
        EngineAddress::Unix(path) => {
            let text = path.to_str().ok_or("path is not UTF-8")?;
            Docker::connect_with_unix(text, seconds, version)
        }
        EngineAddress::Tcp(address) => Docker::connect_with_http(address, seconds, version),
    };
    client.map_err(|error| error.to_string())
}

fn no_engine_error(flavour: Flavour, reasons: &[UnreachableEngine]) -> ContainerError {
    let fix = fix(flavour, reasons);
    if reasons.is_empty() {
        return ContainerError::NoEngine { reason: format!("no {flavour} socket found"), fix, unresponsive: false };
    }
    let whys: Vec<&str> = reasons.iter().map(|reason| reason.why.as_str()).collect();
    // An engine that rejects this user is not expected to answer.
    let unresponsive = reasons.iter().any(|reason| reason.failure != ConnectFailure::Denied);
    ContainerError::NoEngine { reason: format!("cannot connect to {flavour} ({})", whys.join("; ")), fix, unresponsive }
}

/// Returns a fix for the most significant of the reasons.
fn fix(flavour: Flavour, reasons: &[UnreachableEngine]) -> String {
    let named = reasons.iter().find_map(|reason| match &reason.failure {
        ConnectFailure::Named(by) => Some(by),
        _ => None,
    });
    if let Some(by) = named {
        return format!("set {by} to an address where {flavour} listens, or remove it");
    }
    let is = |failure| reasons.iter().any(|reason| reason.failure == failure);
    match flavour {
        _ if is(ConnectFailure::Unresponsive) => format!("check why {flavour} does not respond, and restart it"),
        Flavour::Podman if is(ConnectFailure::Denied) => {
            "start a user service: systemctl --user enable --now podman.socket".to_owned()
        }
        Flavour::Docker if is(ConnectFailure::Denied) => {
            "add this user to the docker group, which is equivalent to root access, or use podman".to_owned()
        }
        Flavour::Podman => {
            "install podman and start it: systemctl --user enable --now podman.socket (as root without --user)"
                .to_owned()
        }
        Flavour::Docker => "install docker and start it, or name its socket with DOCKER_HOST".to_owned(),
    }
}
