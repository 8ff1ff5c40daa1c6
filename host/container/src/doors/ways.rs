//! Connections through a container's port forwards while a job runs.
//!
//! Each connection is a task with a bounded number of bytes in flight in each direction, whatever the agent sends. A
//! connection on which the agent violates the protocol is closed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use codebox_agent::Order;
use codebox_agent::door::{MOST_CONNECTIONS, MOST_PIECE, Said, WINDOW};
use codebox_core::{LimitKind, NetUse};
use codebox_egress::{Egress, proxy, relay};
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet, unconstrained};
use tokio::time::{sleep, timeout};

use super::Target;
use crate::error::ContainerError;

/// Size of the buffer between the two halves of a connection in this process, in bytes.
const BETWEEN: usize = 64 << 10;

/// Time for which a host may be silent after the program has sent all its data or has hung up. The two cases cannot be
/// distinguished.
const SILENCE: Duration = Duration::from_secs(30);

/// Time for a program's last data to reach the hosts after the program has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Open connections of a job. They are closed on drop.
pub(crate) struct Ways {
    egress: Egress,
    targets: Vec<Target>,
    open: HashMap<u32, Way>,
    tasks: JoinSet<u32>,
    /// Requests that are sent to the agent before all others.
    first: VecDeque<Order>,
    orders: mpsc::Receiver<Order>,
    to_orders: mpsc::Sender<Order>,
    /// True once a reached limit has been reported.
    told_over: bool,
    silence: Duration,
}

/// A network event for the task that runs the job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A request to send to the agent.
    Order(Order),
    /// A limit that has been reached, which ends the job.
    Over(LimitKind),
}

/// State of a connection in this process.
struct Way {
    /// The program's side, `None` once the program has hung up.
    inside: Option<Inside>,
    /// Number of bytes that have arrived and have not been passed on.
    behind: Arc<AtomicUsize>,
    /// Number of bytes that the agent can still accept.
    room: Arc<Semaphore>,
    /// True if the program sends no more data.
    ended: bool,
    /// Handle that aborts the task, which may be waiting for a host that reads no data.
    task: AbortHandle,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Data of a program that its task has not read: at most [`WINDOW`] bytes, in any number of chunks.
struct Inside {
    bytes: DuplexStream,
    /// Dropped when the program hangs up.
    _open: oneshot::Sender<()>,
}

impl Inside {
    /// Adds bytes. Returns true if there was room for all of them.
    fn add(&mut self, bytes: &[u8]) -> bool {
        // A closed reader counts as room, because its task reports the end of the connection by itself.
        unconstrained(self.bytes.write_all(bytes)).now_or_never().is_some()
    }

    fn end(&mut self) {
        let _ = unconstrained(self.bytes.shutdown()).now_or_never();
    }
}

/// Most requests to close a connection that wait to be sent to the agent.
const MOST_CUT: usize = 4 * MOST_CONNECTIONS;

impl Ways {
    pub(crate) fn new(egress: Egress, targets: Vec<Target>) -> Self {
        let (to_orders, orders) = mpsc::channel(16);
        let (open, tasks, first) = (HashMap::new(), JoinSet::new(), VecDeque::new());
        Self { egress, targets, open, tasks, first, orders, to_orders, told_over: false, silence: SILENCE }
    }

    /// Opens a connection for a program that has connected to a port forward.
    pub(crate) fn knocked(&mut self, number: u32, door: u16) {
        let target = self.targets.get(usize::from(door)).cloned();
        // The agent frees a slot when both sides have ended, and this process frees it when the task has ended. Aborted
        // tasks count until they have ended.
        while self.tasks.try_join_next().is_some() {}
        let few = self.open.len() < 2 * MOST_CONNECTIONS && self.tasks.len() < 4 * MOST_CONNECTIONS;
        let free = few && !self.open.contains_key(&number);
        let Some(target) = target.filter(|_| free) else {
            return self.cut(number);
        };
        let (bytes, from_inside) = duplex(WINDOW);
        let (open, hung_up) = oneshot::channel();
        let behind = Arc::new(AtomicUsize::new(0));
        let room = Arc::new(Semaphore::new(WINDOW));
        let line =
            Line { number, orders: self.to_orders.clone(), behind: Arc::clone(&behind), room: Arc::clone(&room) };
        let (egress, silence) = (self.egress.clone(), self.silence);
        let task = self.tasks.spawn(async move {
            carry(&line, (target, egress), (from_inside, hung_up), silence).await;
            number
        });
        self.open.insert(number, Way { inside: Some(Inside { bytes, _open: open }), behind, room, ended: false, task });
    }

    /// Handles an event of a connection. Ignores the event if the connection no longer exists.
    pub(crate) fn said(&mut self, number: u32, said: Said) {
        let Some(way) = self.open.get_mut(&number) else { return };
        let Some(inside) = &mut way.inside else { return };
        // Data costs memory until the task reads it. Our agent never sends an empty chunk, or data after the end.
        let empty = matches!(&said, Said::Bytes(bytes) if bytes.is_empty());
        if empty || (way.ended && matches!(said, Said::Bytes(_) | Said::End)) {
            return self.cut(number);
        }
        match said {
            Said::Bytes(bytes) => {
                let behind = way.behind.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len();
                // The agent has exceeded the window.
                if behind > WINDOW || !inside.add(&bytes) {
                    self.cut(number);
                }
            }
            Said::End => {
                way.ended = true;
                inside.end();
            }
            Said::Taken(count) => {
                let room = WINDOW.saturating_sub(way.room.available_permits());
                way.room.add_permits(room.min(usize::try_from(count).unwrap_or(usize::MAX)));
            }
            // Data before this event is still delivered to the host.
            Said::Gone if way.ended => way.inside = None,
            Said::Gone => drop(self.open.remove(&number)),
        }
    }

    /// Checks that the agent accepts the requests to close connections.
    ///
    /// # Errors
    /// Returns an error if more requests are waiting than our agent could cause: the agent violates the protocol and
    /// does not read.
    pub(crate) fn check_backlog(&self) -> Result<(), ContainerError> {
        if self.first.len() <= MOST_CUT {
            return Ok(());
        }
        Err(ContainerError::Agent(format!("more than {MOST_CUT} protocol violations on connections")))
    }

    fn cut(&mut self, number: u32) {
        self.open.remove(&number);
        self.first.push_back(Order::Way(number, Said::Gone));
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(order) = self.first.pop_front() {
                return Next::Order(order);
            }
            let untold = !self.told_over;
            tokio::select! {
                kind = self.egress.until_over(), if untold => {
                    self.told_over = true;
                    return Next::Over(kind);
                }
                Some(order) = self.orders.recv() => return Next::Order(order),
                Some(done) = self.tasks.join_next() => {
                    if let Ok(number) = done {
                        self.open.remove(&number);
                    }
                }
            }
        }
    }

    /// Closes the connections at the end of a job, and returns the network usage.
    ///
    /// If the job ended by itself, the data of programs that have sent everything is still delivered to hosts that
    /// accept it soon. All other connections are reset, so that the hosts can detect it.
    pub(crate) async fn finish(self, by_itself: bool) -> NetUse {
        let Self { egress, mut open, mut tasks, orders, .. } = self;
        // The agent receives no more requests.
        drop(orders);
        open.retain(|_, way| way.ended);
        open.values_mut().for_each(|way| way.inside = None);
        if by_itself {
            let _ = timeout(LAST_WORDS, async { while tasks.join_next().await.is_some() {} }).await;
        }
        tasks.shutdown().await;
        egress.used()
    }
}

/// The agent's end of a connection.
struct Line {
    number: u32,
    orders: mpsc::Sender<Order>,
    behind: Arc<AtomicUsize>,
    room: Arc<Semaphore>,
}

impl Line {
    async fn say(&self, said: Said) {
        // The receiver is closed once the job is over.
        let _ = self.orders.send(Order::Way(self.number, said)).await;
    }
}

/// Serves one connection, until both sides have ended or one of them is closed.
async fn carry(
    line: &Line,
    (target, egress): (Target, Egress),
    (mut from_inside, hung_up): (DuplexStream, oneshot::Receiver<()>),
    silence: Duration,
) {
    let (near, far) = duplex(BETWEEN);
    let (mut from_far, mut to_far) = split(far);
    let through_proxy = matches!(target, Target::Proxy);
    let (ended, heard, delivered) = (Notify::new(), AtomicBool::new(true), Notify::new());
    let outward = async {
        let (mut listens, mut buffer) = (true, vec![0; MOST_PIECE]);
        while let Ok(count @ 1..) = from_inside.read(&mut buffer).await {
            listens = listens && to_far.write_all(&buffer[..count]).await.is_ok();
            line.behind.fetch_sub(count, Ordering::AcqRel);
            line.say(Said::Taken(u32::try_from(count).unwrap_or(u32::MAX))).await;
        }
        // A connection that is dropped before this point has its task aborted.
        ended.notify_one();
        let _ = to_far.shutdown().await;
        let _ = hung_up.await;
        // The proxy reports delivery for tunnels only. An answer that the program no longer reads must not hold a slot
        // for long.
        let patience = if through_proxy { LAST_WORDS } else { Duration::MAX };
        let _ = timeout(patience, delivered.notified()).await;
    };
    let inward = async {
        let mut buffer = vec![0; MOST_PIECE];
        while let Ok(count @ 1..) = from_far.read(&mut buffer).await {
            heard.store(true, Ordering::Relaxed);
            // The semaphore is never closed.
            let Ok(room) = line.room.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await else { break };
            room.forget();
            line.say(Said::Bytes(buffer[..count].to_vec())).await;
        }
        line.say(Said::End).await;
    };
    let both = async {
        tokio::join!(serve(near, target, egress, &delivered), inward);
    };
    let silent = async {
        ended.notified().await;
        while heard.swap(false, Ordering::Relaxed) {
            sleep(silence).await;
        }
    };
    tokio::select! {
        () = both => line.say(Said::Gone).await,
        () = silent => line.say(Said::Gone).await,
        // The program has hung up, and the remote host has received all of its data.
        () = outward => {}
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
