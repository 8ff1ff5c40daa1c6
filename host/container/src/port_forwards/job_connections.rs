//! Connections through a container's port forwards while a job runs.
//!
//! Each connection is a task with a bounded number of bytes in flight in each direction, whatever the agent sends. A
//! connection on which the agent violates the protocol is closed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use codebox_agent::Request;
use codebox_agent::port_forward::{MAX_CHUNK_SIZE, MAX_CONNECTIONS, StreamEvent, WINDOW};
use codebox_core::{LimitKind, NetworkUsage};
use codebox_egress::{Egress, proxy, relay};
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, unconstrained};
use tokio::time::{sleep, timeout};

use super::Target;
use crate::error::ContainerError;

/// Size of the buffer between the two halves of a connection in this process, in bytes.
const RELAY_BUFFER_SIZE: usize = 64 << 10;

/// Time for which a host may be silent after the program has sent all its data or has hung up. The two cases cannot be
/// distinguished.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for a program's last data to reach the hosts after the program has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Open connections of a job. They are closed on drop.
pub(crate) struct JobConnections {
    egress: Egress,
    targets: Vec<Target>,
    open: HashMap<u32, Connection>,
    tasks: JoinSet<u32>,
    /// Requests that are sent to the agent before all others.
    priority_requests: VecDeque<Request>,
    requests: mpsc::Receiver<Request>,
    request_sender: mpsc::Sender<Request>,
    /// True once a reached limit has been reported.
    limit_reported: bool,
    idle_timeout: Duration,
}

/// A network event for the task that runs the job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NetworkEvent {
    /// A request to send to the agent.
    Request(Request),
    /// A limit that has been reached, which ends the job.
    LimitHit(LimitKind),
}

/// State of a connection in this process.
struct Connection {
    /// The program's side, `None` once the program has hung up.
    guest_stream: Option<GuestStream>,
    /// Number of bytes that have arrived and have not been passed on.
    queued: Arc<AtomicUsize>,
    /// Number of bytes that the agent can still accept.
    credit: Arc<Semaphore>,
    /// True if the program sends no more data.
    ended: bool,
    /// Handle that aborts the task, which may be waiting for a host that reads no data.
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Data of a program that its task has not read: at most [`WINDOW`] bytes, in any number of chunks.
struct GuestStream {
    bytes: DuplexStream,
    /// Dropped when the program hangs up.
    _open: oneshot::Sender<()>,
}

impl GuestStream {
    /// Adds bytes. Returns true if there was space for all of them.
    fn add(&mut self, bytes: &[u8]) -> bool {
        // A closed reader counts as space, because its task reports the end of the connection by itself.
        unconstrained(self.bytes.write_all(bytes)).now_or_never().is_some()
    }

    fn end(&mut self) {
        let _ = unconstrained(self.bytes.shutdown()).now_or_never();
    }
}

/// Most requests to close a connection that wait to be sent to the agent.
const MAX_CLOSE_REQUESTS: usize = 4 * MAX_CONNECTIONS;

impl JobConnections {
    pub(crate) fn new(egress: Egress, targets: Vec<Target>) -> Self {
        let (request_sender, requests) = mpsc::channel(16);
        let (open, tasks, priority_requests) = (HashMap::new(), JoinSet::new(), VecDeque::new());
        Self {
            egress,
            targets,
            open,
            tasks,
            priority_requests,
            requests,
            request_sender,
            limit_reported: false,
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    /// Opens a connection for a program that has connected to a port forward.
    pub(crate) fn open_connection(&mut self, number: u32, port_forward: u16) {
        let target = self.targets.get(usize::from(port_forward)).cloned();
        // The agent frees a slot when both sides have ended, and this process frees it when the task has ended. Aborted
        // tasks count until they have ended.
        while self.tasks.try_join_next().is_some() {}
        let few = self.open.len() < 2 * MAX_CONNECTIONS && self.tasks.len() < 4 * MAX_CONNECTIONS;
        let free = few && !self.open.contains_key(&number);
        let Some(target) = target.filter(|_| free) else {
            return self.close(number);
        };
        let (bytes, from_guest) = duplex(WINDOW);
        let (open, hung_up) = oneshot::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let credit = Arc::new(Semaphore::new(WINDOW));
        let agent_end = AgentEnd {
            number,
            requests: self.request_sender.clone(),
            queued: Arc::clone(&queued),
            credit: Arc::clone(&credit),
        };
        let (egress, idle_timeout) = (self.egress.clone(), self.idle_timeout);
        let task = self.tasks.spawn(async move {
            forward_connection(&agent_end, target, egress, from_guest, hung_up, idle_timeout).await;
            number
        });
        self.open.insert(
            number,
            Connection { guest_stream: Some(GuestStream { bytes, _open: open }), queued, credit, ended: false, task },
        );
    }

    /// Handles an event of a connection. Ignores the event if the connection no longer exists.
    pub(crate) fn event(&mut self, number: u32, event: StreamEvent) {
        let Some(connection) = self.open.get_mut(&number) else { return };
        let Some(guest_stream) = &mut connection.guest_stream else { return };
        // Data costs memory until the task reads it. Our agent never sends an empty chunk, or data after the end.
        let empty = matches!(&event, StreamEvent::Bytes(bytes) if bytes.is_empty());
        if empty || (connection.ended && matches!(event, StreamEvent::Bytes(_) | StreamEvent::End)) {
            return self.close(number);
        }
        match event {
            StreamEvent::Bytes(bytes) => {
                let queued = connection.queued.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len();
                // The agent has exceeded the window.
                if queued > WINDOW || !guest_stream.add(&bytes) {
                    self.close(number);
                }
            }
            StreamEvent::End => {
                connection.ended = true;
                guest_stream.end();
            }
            StreamEvent::WindowUpdate(count) => {
                let credit = WINDOW.saturating_sub(connection.credit.available_permits());
                connection.credit.add_permits(credit.min(usize::try_from(count).unwrap_or(usize::MAX)));
            }
            // Data before this event is still delivered to the host.
            StreamEvent::Closed if connection.ended => connection.guest_stream = None,
            StreamEvent::Closed => drop(self.open.remove(&number)),
        }
    }

    /// Checks that the agent accepts the requests to close connections.
    ///
    /// # Errors
    /// Returns an error if more requests are waiting than our agent could cause: the agent violates the protocol and
    /// does not read.
    pub(crate) fn check_backlog(&self) -> Result<(), ContainerError> {
        if self.priority_requests.len() <= MAX_CLOSE_REQUESTS {
            return Ok(());
        }
        Err(ContainerError::Agent(format!("more than {MAX_CLOSE_REQUESTS} protocol violations on connections")))
    }

    fn close(&mut self, number: u32) {
        self.open.remove(&number);
        self.priority_requests.push_back(Request::Connection(number, StreamEvent::Closed));
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> NetworkEvent {
        loop {
            if let Some(request) = self.priority_requests.pop_front() {
                return NetworkEvent::Request(request);
            }
            let watch_limit = !self.limit_reported;
            tokio::select! {
                kind = self.egress.limit_reached(), if watch_limit => {
                    self.limit_reported = true;
                    return NetworkEvent::LimitHit(kind);
                }
                Some(request) = self.requests.recv() => return NetworkEvent::Request(request),
                Some(done) = self.tasks.join_next() => {
                    if let Ok(number) = done {
                        self.open.remove(&number);
                    }
                }
            }
        }
    }

    /// Returns the network usage so far.
    pub(crate) fn used(&self) -> NetworkUsage {
        self.egress.used()
    }

    /// Closes the connections at the end of a job, and returns the network usage.
    ///
    /// If the job ended by itself, the data of programs that have sent everything is still delivered to hosts that
    /// accept it soon. All other connections are reset, so that the hosts can detect it.
    pub(crate) async fn finish(self, by_itself: bool) -> NetworkUsage {
        let Self { egress, mut open, mut tasks, requests, .. } = self;
        // The agent receives no more requests.
        drop(requests);
        open.retain(|_, connection| connection.ended);
        open.values_mut().for_each(|connection| connection.guest_stream = None);
        if by_itself {
            let _ = timeout(FLUSH_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
        }
        tasks.shutdown().await;
        egress.used()
    }
}

/// The agent's end of a connection.
struct AgentEnd {
    number: u32,
    requests: mpsc::Sender<Request>,
    queued: Arc<AtomicUsize>,
    credit: Arc<Semaphore>,
}

impl AgentEnd {
    async fn send_event(&self, event: StreamEvent) {
        // The receiver is closed once the job is over.
        let _ = self.requests.send(Request::Connection(self.number, event)).await;
    }
}

/// Serves one connection, until both sides have ended or one of them is closed.
async fn forward_connection(
    agent_end: &AgentEnd,
    target: Target,
    egress: Egress,
    mut from_guest: DuplexStream,
    hung_up: oneshot::Receiver<()>,
    idle_timeout: Duration,
) {
    let (near, far) = duplex(RELAY_BUFFER_SIZE);
    let (mut from_far, mut to_far) = split(far);
    let through_proxy = matches!(target, Target::Proxy);
    let (ended, active, delivered) = (Notify::new(), AtomicBool::new(true), Notify::new());
    let outbound = async {
        let (mut host_reads, mut buffer) = (true, vec![0; MAX_CHUNK_SIZE]);
        while let Ok(count @ 1..) = from_guest.read(&mut buffer).await {
            host_reads = host_reads && to_far.write_all(&buffer[..count]).await.is_ok();
            agent_end.queued.fetch_sub(count, Ordering::AcqRel);
            agent_end.send_event(StreamEvent::WindowUpdate(u32::try_from(count).unwrap_or(u32::MAX))).await;
        }
        // A connection that is dropped before this point has its task aborted.
        ended.notify_one();
        let _ = to_far.shutdown().await;
        let _ = hung_up.await;
        // The proxy reports delivery for tunnels only. An answer that the program no longer reads must not hold a slot
        // for long.
        let delivery_timeout = if through_proxy { FLUSH_TIMEOUT } else { Duration::MAX };
        let _ = timeout(delivery_timeout, delivered.notified()).await;
    };
    let inbound = async {
        let mut buffer = vec![0; MAX_CHUNK_SIZE];
        while let Ok(count @ 1..) = from_far.read(&mut buffer).await {
            active.store(true, Ordering::Relaxed);
            // The semaphore is never closed.
            let Ok(credit) = agent_end.credit.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await else {
                break;
            };
            credit.forget();
            agent_end.send_event(StreamEvent::Bytes(buffer[..count].to_vec())).await;
        }
        agent_end.send_event(StreamEvent::End).await;
    };
    let both = async {
        tokio::join!(serve(near, target, egress, &delivered), inbound);
    };
    let idle = async {
        ended.notified().await;
        while active.swap(false, Ordering::Relaxed) {
            sleep(idle_timeout).await;
        }
    };
    tokio::select! {
        () = both => agent_end.send_event(StreamEvent::Closed).await,
        () = idle => agent_end.send_event(StreamEvent::Closed).await,
        // The program has hung up, and the remote host has received all of its data.
        () = outbound => {}
    }
}

async fn serve(near: DuplexStream, target: Target, egress: Egress, delivered: &Notify) {
    match target {
        Target::Proxy => proxy::serve(near, egress, || delivered.notify_one()).await,
        Target::Host(host, port) => {
            // If the host is denied or unreachable, the connection ends. The report contains the reason.
            if let Ok(remote) = egress.connect(&host, port).await {
                relay(near, remote, || delivered.notify_one()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
