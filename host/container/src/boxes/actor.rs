//! The task that holds the connection to the agent of a box.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use codebox_agent::command::{CommandEvent, CommandRequest, INPUT_WINDOW, OUTPUT_WINDOW};
use codebox_agent::{Event, Request};
use codebox_core::{LimitKind, ShimCall};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use crate::agent_connection::AgentConnection;
use crate::error::ContainerError;
use crate::last_state::last_state;
use crate::port_forwards::{JobConnections, NetworkEvent};
use crate::watch::Watch;

/// Maximum number of calls of shims that wait to be read. Further ones are dropped.
pub(super) const MAX_WAITING_CALLS: usize = 4096;

/// Interval between measurements of the private directories while no command runs, for programs in the background.
const IDLE_MEASUREMENT_INTERVAL: Duration = Duration::from_secs(5);

/// Timeout for the reason of an agent that has ended.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Message to the task.
pub(super) enum ToActor {
    /// Start of a command with this number.
    Start(u32, CommandRequest, Slot),
    /// Request for the command with this number.
    Request(u32, CommandRequest),
}

/// Place for the events of a command.
pub(super) struct Slot {
    pub events: mpsc::UnboundedSender<CommandEvent>,
    pub credit: Arc<Semaphore>,
}

/// State of the task.
pub(super) struct Actor {
    pub connection: AgentConnection,
    /// Connection that the engine carries, if `connection` is a socket. Its end ends the agent.
    pub standby: Option<AgentConnection>,
    pub requests: mpsc::UnboundedReceiver<ToActor>,
    pub shim_calls: mpsc::Sender<ShimCall>,
    pub watch: Option<Watch>,
    pub job_connections: Option<JobConnections>,
    pub client: Docker,
    pub container_id: String,
    pub commands: HashMap<u32, Command>,
}

/// A command that runs.
pub(super) struct Command {
    slot: Slot,
    /// Bytes of output that its reader has not taken.
    unread: usize,
}

enum Next {
    Request(Option<ToActor>),
    Written(Result<(), ContainerError>),
    Event(Result<Option<Event>, ContainerError>),
    Network(NetworkEvent),
    Limit(LimitKind),
    Measure,
}

impl Actor {
    /// Passes requests and events on until the box ends. Returns the reason.
    pub(super) async fn run(mut self) -> String {
        let mut next_measurement = Instant::now() + IDLE_MEASUREMENT_INTERVAL;
        let mut is_measuring = false;
        loop {
            let next = {
                let Self { connection, requests, watch, job_connections, commands, .. } = &mut self;
                let AgentConnection { event_reader, write_queue } = connection;
                let has_capacity = write_queue.has_capacity();
                let measures = !commands.is_empty() || is_measuring;
                tokio::select! {
                    biased;
                    kind = exceeded(watch), if measures => Next::Limit(kind),
                    () = sleep_until(next_measurement), if !measures => Next::Measure,
                    written = write_queue.written() => Next::Written(written),
                    event = event_reader.event() => Next::Event(event),
                    request = requests.recv(), if has_capacity => Next::Request(request),
                    network = next_network_event(job_connections), if has_capacity => Next::Network(network),
                    () = sleep_until(next_measurement + MEASUREMENT_TIME), if is_measuring => {
                        (is_measuring, next_measurement) = (false, Instant::now() + IDLE_MEASUREMENT_INTERVAL);
                        continue;
                    }
                }
            };
            match next {
                Next::Measure => (is_measuring, next_measurement) = (true, Instant::now()),
                Next::Limit(kind) => return format!("its files have reached the limit {kind}"),
                Next::Network(NetworkEvent::Request(request)) => self.connection.write_queue.enqueue(&request),
                Next::Network(NetworkEvent::LimitHit(kind)) => {
                    // The limit holds: connections beyond it are refused.
                    tracing::debug!(%kind, "a network limit of a box is reached");
                }
                Next::Written(Ok(())) => {}
                Next::Written(Err(error)) => return self.reason_of(Some(error)).await,
                Next::Event(Ok(Some(event))) => {
                    if let Err(error) = self.on_event(event) {
                        return error;
                    }
                    self.connection.write_queue.on_event();
                }
                Next::Event(Ok(None)) => return self.reason_of(None).await,
                Next::Event(Err(error)) => return self.reason_of(Some(error)).await,
                Next::Request(Some(request)) => self.on_request(request),
                Next::Request(None) => return "it was closed".to_owned(),
            }
        }
    }

    fn on_request(&mut self, request: ToActor) {
        let (number, request) = match request {
            ToActor::Start(number, request, slot) => {
                self.commands.insert(number, Command { slot, unread: 0 });
                (number, request)
            }
            ToActor::Request(number, request) => (number, request),
        };
        let Some(command) = self.commands.get_mut(&number) else { return };
        if let CommandRequest::OutputCredit(count) = request {
            command.unread = command.unread.saturating_sub(count as usize);
        }
        self.connection.write_queue.enqueue(&Request::Command(number, request));
    }

    /// Passes an event on. An agent that violates the protocol ends the box, with the reason.
    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Command(number, event) => {
                let Some(command) = self.commands.get_mut(&number) else { return Ok(()) };
                match &event {
                    CommandEvent::Stdout(bytes) | CommandEvent::Stderr(bytes) => {
                        command.unread += bytes.len();
                        if command.unread > OUTPUT_WINDOW as usize {
                            return Err("its agent sent more output than it was allowed to".to_owned());
                        }
                    }
                    CommandEvent::InputCredit(count) => {
                        let missing = (INPUT_WINDOW as usize).saturating_sub(command.slot.credit.available_permits());
                        command.slot.credit.add_permits(missing.min(*count as usize));
                    }
                    CommandEvent::Ended(_) => {}
                }
                let has_ended = matches!(event, CommandEvent::Ended(_));
                // A command whose reader is gone has been abandoned.
                let _ = command.slot.events.send(event);
                if has_ended {
                    command.slot.credit.close();
                    self.commands.remove(&number);
                }
            }
            Event::ShimCall(call) => {
                let _ = self.shim_calls.try_send(*call);
            }
            Event::Accepted(number, port_forward) => {
                if let Some(connections) = &mut self.job_connections {
                    connections.open_connection(number, port_forward);
                    connections.check_backlog().map_err(|error| error.to_string())?;
                }
            }
            Event::Connection(number, event) => {
                if let Some(connections) = &mut self.job_connections {
                    connections.event(number, event);
                    connections.check_backlog().map_err(|error| error.to_string())?;
                }
            }
            _ => return Err("its agent sent an event that a box does not have".to_owned()),
        }
        Ok(())
    }

    /// Returns the reason of the end of a connection. The engine knows whether the container was killed.
    async fn reason_of(mut self, error: Option<ContainerError>) -> String {
        // No command can end any more.
        self.commands.clear();
        let own = self.standby.as_mut().unwrap_or(&mut self.connection);
        let rest = async { while let Ok(Some(_)) = own.event().await {} };
        let _ = timeout(REASON_TIMEOUT, rest).await;
        let state = last_state(&self.client, &self.container_id, None).await;
        match state {
            Ok(None) => "its container was removed".to_owned(),
            Ok(Some(state)) if state.oom_killed == Some(true) && state.running != Some(true) => {
                "its agent was killed for lack of memory".to_owned()
            }
            Ok(Some(state)) if state.running != Some(true) => match state.exit_code {
                Some(137) => "its container was killed".to_owned(),
                code => {
                    let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
                    own.early_end_error("reach the agent", &format!("exited with {code}")).to_string()
                }
            },
            Ok(Some(_)) | Err(_) => {
                error.map_or_else(|| "the connection to its agent has ended".to_owned(), |error| error.to_string())
            }
        }
    }
}

/// Time in which the directories are measured at least once while no command runs.
const MEASUREMENT_TIME: Duration = Duration::from_millis(200);

/// Waits until the box exceeds a limit on its files. Never completes if there is no such limit.
async fn exceeded(watch: &mut Option<Watch>) -> LimitKind {
    match watch {
        Some(watch) => watch.exceeded().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next network event. Never completes without network access.
async fn next_network_event(connections: &mut Option<JobConnections>) -> NetworkEvent {
    match connections {
        Some(connections) => connections.next().await,
        None => std::future::pending().await,
    }
}
