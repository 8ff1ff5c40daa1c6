//! A running command of a box.

use std::sync::Arc;
use std::time::Duration;

use codebox_agent::command::{CommandEvent as AgentEvent, CommandExit, CommandRequest, INPUT_WINDOW};
use codebox_agent::{Status, Stop};
use codebox_core::{
    BackendError, BackendId, BoxCommand, BoxFuture, CommandEnd, CommandEvent, CommandInput, LimitKind, Outcome,
    RunningCommand, Usage,
};
use tokio::sync::{Semaphore, mpsc, watch};

use super::actor::{Slot, ToActor};
use crate::error::ContainerError;

/// Most bytes of input in one request.
const MAX_INPUT_SIZE: usize = 32 << 10;

const SIGKILL: i32 = 9;

/// A running command. Dropping it kills its process group.
pub(super) struct ContainerCommand {
    number: u32,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    to_actor: mpsc::UnboundedSender<ToActor>,
    /// Bytes of input that the agent accepts.
    credit: Arc<Semaphore>,
    ended: watch::Receiver<Option<String>>,
    backend: BackendId,
    has_ended: bool,
}

impl ContainerCommand {
    /// Creates a command, and returns with it the request that starts it and the place for its events.
    pub(super) fn new(
        number: u32,
        command: BoxCommand,
        to_actor: mpsc::UnboundedSender<ToActor>,
        ended: watch::Receiver<Option<String>>,
        backend: &BackendId,
    ) -> (CommandRequest, Self, Slot) {
        let (sender, events) = mpsc::unbounded_channel();
        let credit = Arc::new(Semaphore::new(INPUT_WINDOW as usize));
        let slot = Slot { events: sender, credit: Arc::clone(&credit) };
        let running = Self { number, events, to_actor, credit, ended, backend: backend.clone(), has_ended: false };
        (CommandRequest::Start(Box::new(command)), running, slot)
    }

    fn request(&self, request: CommandRequest) {
        let _ = self.to_actor.send(ToActor::Request(self.number, request));
    }
}

impl RunningCommand for ContainerCommand {
    fn event(&mut self) -> BoxFuture<'_, Result<CommandEvent, BackendError>> {
        Box::pin(async move {
            loop {
                let (stream, bytes) = match self.events.recv().await {
                    Some(AgentEvent::Stdout(bytes)) => (0, bytes),
                    Some(AgentEvent::Stderr(bytes)) => (1, bytes),
                    Some(AgentEvent::InputCredit(_)) => continue,
                    Some(AgentEvent::Ended(exit)) => {
                        self.has_ended = true;
                        return Ok(CommandEvent::Ended(command_end(exit)));
                    }
                    None => {
                        self.has_ended = true;
                        // The reason is known a moment after the connection has ended.
                        let reason = self.ended.wait_for(Option::is_some).await;
                        let reason = reason.ok().and_then(|reason| reason.clone());
                        let reason = reason.unwrap_or_else(|| "its agent is gone".to_owned());
                        return Err(lost(&reason).of(&self.backend));
                    }
                };
                self.request(CommandRequest::OutputCredit(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
                return Ok(CommandEvent::Output(stream, bytes));
            }
        })
    }

    fn send(&self, input: CommandInput) -> BoxFuture<'static, ()> {
        let (number, to_actor, credit) = (self.number, self.to_actor.clone(), Arc::clone(&self.credit));
        Box::pin(async move {
            let send = |request| {
                let _ = to_actor.send(ToActor::Request(number, request));
            };
            match input {
                CommandInput::Bytes(bytes) => {
                    for piece in bytes.chunks(MAX_INPUT_SIZE) {
                        let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                        // Closed at the end of the command.
                        let Ok(permits) = credit.acquire_many(count).await else { return };
                        permits.forget();
                        send(CommandRequest::Input(piece.to_vec()));
                    }
                }
                CommandInput::End => send(CommandRequest::InputEnd),
                CommandInput::Signal(signal) => send(CommandRequest::Signal(signal)),
                CommandInput::Resize(size) => send(CommandRequest::Resize(size)),
            }
        })
    }
}

impl Drop for ContainerCommand {
    fn drop(&mut self) {
        if !self.has_ended {
            self.request(CommandRequest::Abandon);
        }
    }
}

/// Returns the error for a command whose box has ended.
pub(super) fn lost(reason: &str) -> ContainerError {
    ContainerError::Lost { doing: "run the command in the box", source: reason.to_owned().into() }
}

fn command_end(exit: CommandExit) -> CommandEnd {
    let CommandExit { status, stop, not_run, wall_us, oom_kills } = exit;
    let outcome = match (stop, status) {
        (Some(Stop::Wall), _) => Outcome::LimitHit(LimitKind::Wall),
        (Some(Stop::Cpu), _) => Outcome::LimitHit(LimitKind::Cpu),
        // Another command may have been killed at the same time, so a command that ended otherwise was not.
        (None, Status::Signalled(SIGKILL)) if oom_kills.is_some_and(|count| count > 0) => {
            Outcome::LimitHit(LimitKind::Memory)
        }
        (None, Status::Signalled(signal)) => Outcome::Signalled(signal),
        (None, Status::Exited(code)) => Outcome::Exited(code),
        (None, Status::NotStarted(_)) => Outcome::Exited(126),
    };
    let usage = Usage { wall: Duration::from_micros(wall_us), ..Usage::default() };
    CommandEnd { outcome, usage, not_run }
}
