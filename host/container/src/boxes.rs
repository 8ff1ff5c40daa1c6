//! Boxes: containers that run many commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use codebox_agent::command::{BoxOpened, HostSocket, OpenBox, SHIM_DIR};
use codebox_agent::{AGENT_PATH, Event, Request};
use codebox_core::{
    AgentLink, BackendError, BackendId, BoxCommand, BoxFacts, BoxFuture, BoxInstance, BoxSettings, Enforcement,
    GuestPath, InstanceSpec, LimitKind, RunningCommand, ShimCall,
};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::agent_connection::AgentConnection;
use crate::enforcement::{limit_enforcement, sandbox_layers};
use crate::engine::{CALL_TIMEOUT, Engine};
use crate::error::ContainerError;
use crate::images::ImageFacts;
use crate::instance::{ContainerInstance, INHERITED_VARIABLES};
use crate::shared::Shared;

mod actor;
mod layout;
mod running;
mod socket;

pub(crate) use layout::BoxLayout;

use actor::{Actor, ToActor};
use running::ContainerCommand;
use socket::ListeningSocket;

/// An open box.
pub(crate) struct ContainerBox {
    backend: BackendId,
    facts: BoxFacts,
    to_actor: mpsc::UnboundedSender<ToActor>,
    shim_calls: Mutex<mpsc::Receiver<ShimCall>>,
    /// Reason of the end, once the box has ended.
    ended: watch::Receiver<Option<String>>,
    next_number: AtomicU32,
    /// Ends with the container's agent, whose connection it holds.
    actor: JoinHandle<()>,
    instance: std::sync::Mutex<ContainerInstance>,
}

impl ContainerBox {
    /// Creates and starts a container exactly as `spec` describes, and opens a box in it.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        engine: Engine,
        image: ImageFacts,
        spec: &InstanceSpec,
        settings: &BoxSettings,
    ) -> Result<Self, ContainerError> {
        for (kind, is_set) in
            [(LimitKind::Fuel, spec.limits.fuel.at().is_some()), (LimitKind::Cpu, spec.limits.cpu.at().is_some())]
        {
            if is_set {
                return Err(ContainerError::Limit(kind));
            }
        }
        let layout = BoxLayout::new(settings);
        let backend = engine.id();
        let mut instance = ContainerInstance::open_for(shared, engine, image, spec, Some(&layout)).await?;
        let opened = open_agent(&mut instance, &layout).await;
        let (connection, standby, opened) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let _ = codebox_core::Instance::close(Box::new(instance)).await;
                return Err(error);
            }
        };
        layout.link_shims(&instance.scratch_path(layout::SHIMS), &opened.shims)?;
        let facts = BoxFacts {
            provenance: instance.provenance(),
            limits: spec.limits,
            enforcement: Enforcement {
                limits: limit_enforcement(&instance.engine.facts),
                uncovered: instance.granted.uncovered(),
                layers: sandbox_layers(&instance.engine.facts, &instance.port_forwards, spec.cpus),
            },
            connection: if opened.has_socket { AgentLink::Socket } else { AgentLink::Stdio },
            shims: opened.shims.into_iter().collect(),
        };
        let (to_actor, requests) = mpsc::unbounded_channel();
        let (call_sender, shim_calls) = mpsc::channel(actor::MAX_WAITING_CALLS);
        let (end_sender, ended) = watch::channel(None);
        let actor = Actor {
            connection,
            standby,
            requests,
            shim_calls: call_sender,
            watch: crate::watch::Watch::over(instance.private_dirs()?, &spec.limits),
            job_connections: instance.connections(&spec.grants, &spec.limits),
            client: instance.engine.client.clone(),
            container_id: instance.container.id().to_owned(),
            commands: HashMap::default(),
        };
        let actor = tokio::spawn(async move {
            let reason = actor.run().await;
            end_sender.send_replace(Some(reason));
        });
        let (shim_calls, next_number) = (Mutex::new(shim_calls), AtomicU32::new(0));
        let instance = std::sync::Mutex::new(instance);
        Ok(Self { backend, facts, to_actor, shim_calls, ended, next_number, actor, instance })
    }

    fn lost(&self) -> BackendError {
        let reason = self.ended.borrow().clone().unwrap_or_else(|| "its agent is gone".to_owned());
        running::lost(&reason).of(&self.backend)
    }
}

/// Opens a box in the agent of a container. Returns the connection for commands, and the one that is only kept open.
async fn open_agent(
    instance: &mut ContainerInstance,
    layout: &BoxLayout<'_>,
) -> Result<(AgentConnection, Option<AgentConnection>, BoxOpened), ContainerError> {
    const OPERATION: &str = "open a box";
    // A remote engine mounts directories of another machine, and the kernel of a virtual machine has sockets of its own.
    let is_here = instance.engine.machine.is_none();
    let socket = is_here.then(|| ListeningSocket::bind(&instance.scratch_path(layout::SOCKET)).ok()).flatten();
    let proxies = instance.port_forwards.environment(layout.job(), instance.ca_bundle);
    let open = OpenBox {
        env: crate::instance::environment(layout.job(), false, &[], proxies),
        from_image: INHERITED_VARIABLES.map(str::to_owned).to_vec(),
        cwd: GuestPath::work().as_str().to_owned(),
        settings: layout.settings().clone(),
        port_forwards: instance.port_forwards.places(),
        socket: socket.as_ref().map(|socket| HostSocket { path: layout::socket_path(), token: socket.token.clone() }),
    };
    let mut stdio = instance.take_agent_connection();
    stdio.request(&Request::OpenBox(Box::new(open))).await?;
    let opened = async {
        match stdio.event().await? {
            Some(Event::BoxOpened(opened)) => Ok(opened),
            _ => Err(stdio.early_end_error(OPERATION, "did not open")),
        }
    };
    let opened = match timeout(CALL_TIMEOUT, opened).await {
        Ok(opened) => opened?,
        Err(late) => return Err(ContainerError::Lost { doing: OPERATION, source: Box::new(late) }),
    };
    // The agent is untrusted from here on: names that are none of the settings make no link.
    let shims = opened.shims.into_iter().filter(|name| layout.settings().shims.contains(name)).collect();
    let opened = BoxOpened { shims, ..opened };
    match socket {
        Some(socket) if opened.has_socket => {
            let stream =
                socket.accept().await.map_err(ContainerError::io("accept the agent at", AGENT_PATH.as_ref()))?;
            Ok((AgentConnection::from_socket(stream), Some(stdio), opened))
        }
        _ => Ok((stdio, None, BoxOpened { has_socket: false, ..opened })),
    }
}

impl BoxInstance for ContainerBox {
    fn facts(&self) -> &BoxFacts {
        &self.facts
    }

    fn start(&self, command: BoxCommand) -> BoxFuture<'_, Result<Box<dyn RunningCommand>, BackendError>> {
        Box::pin(async move {
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            let (to_actor, ended) = (self.to_actor.clone(), self.ended.clone());
            let (start, running, slot) = ContainerCommand::new(number, command, to_actor, ended, &self.backend);
            if self.to_actor.send(ToActor::Start(number, start, slot)).is_err() {
                return Err(self.lost());
            }
            Ok(Box::new(running) as Box<dyn RunningCommand>)
        })
    }

    fn next_shim_call(&self) -> BoxFuture<'_, Option<ShimCall>> {
        Box::pin(async move { self.shim_calls.lock().await.recv().await })
    }

    fn ended(&self) -> BoxFuture<'_, String> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            let reason = ended.wait_for(Option::is_some).await;
            reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "it was closed".to_owned())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        // The container is removed first, so that its end is not mistaken for one of its own.
        Box::pin(async move {
            let instance = self.instance.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            let closed = codebox_core::Instance::close(Box::new(instance)).await;
            self.actor.abort();
            closed
        })
    }
}

/// Returns the search path of a box: the shims, then the image's directories.
fn search_path(image: &ImageFacts) -> String {
    const DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    format!("{SHIM_DIR}:{}", image.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(DEFAULT))
}
