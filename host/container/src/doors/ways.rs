//! What goes through a container's doors, while its job runs.
//!
//! Each connection is a task with a bounded number of bytes under way in each direction, whatever the other side of the
//! line says; one that breaks the rules is cut off.

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

/// Bytes between a connection's two halves here.
const BETWEEN: usize = 64 << 10;

/// How long a host may be silent to a program that has said all it has to say, or has hung up: the two look alike.
const SILENCE: Duration = Duration::from_secs(30);

/// How long what a program said last may take to reach its hosts once the program is gone.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The open connections of a job; dropped, they are cut.
pub(crate) struct Ways {
    egress: Egress,
    targets: Vec<Target>,
    open: HashMap<u32, Way>,
    tasks: JoinSet<u32>,
    /// What is to be told the agent before anything else.
    first: VecDeque<Order>,
    orders: mpsc::Receiver<Order>,
    to_orders: mpsc::Sender<Order>,
    /// That a limit was reached is told once.
    told_over: bool,
    silence: Duration,
}

/// What the network wants of whoever runs the job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// That the agent is told this.
    Order(Order),
    /// That the job ends, for this limit is reached.
    Over(LimitKind),
}

/// What this side keeps of a connection.
struct Way {
    /// The program's side; `None` once the program has hung up.
    inside: Option<Inside>,
    /// Bytes that came and were not passed on.
    behind: Arc<AtomicUsize>,
    /// Bytes that the agent takes.
    room: Arc<Semaphore>,
    /// Whether the program has said all that it has to say.
    ended: bool,
    /// Ends the task, which may wait for a host that takes nothing.
    task: AbortHandle,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a program says on a connection, until its task takes it: at most [`WINDOW`] bytes, in however many pieces.
struct Inside {
    bytes: DuplexStream,
    /// Dropped when the program hangs up.
    _open: oneshot::Sender<()>,
}

impl Inside {
    /// Adds bytes for which there is room; returns true if all of them were taken.
    fn add(&mut self, bytes: &[u8]) -> bool {
        // A task that does not listen any more says so itself.
        unconstrained(self.bytes.write_all(bytes)).now_or_never().is_some()
    }

    fn end(&mut self) {
        let _ = unconstrained(self.bytes.shutdown()).now_or_never();
    }
}

/// Most orders to cut a connection that wait for the agent to take them.
const MOST_CUT: usize = 4 * MOST_CONNECTIONS;

impl Ways {
    pub(crate) fn new(egress: Egress, targets: Vec<Target>) -> Self {
        let (to_orders, orders) = mpsc::channel(16);
        let (open, tasks, first) = (HashMap::new(), JoinSet::new(), VecDeque::new());
        Self { egress, targets, open, tasks, first, orders, to_orders, told_over: false, silence: SILENCE }
    }

    /// Somebody inside connected to a door.
    pub(crate) fn knocked(&mut self, number: u32, door: u16) {
        let target = self.targets.get(usize::from(door)).cloned();
        // The agent frees a place when both sides have ended, and this side when its task has come to the end of it.
        // Tasks that were cut off count until they are gone.
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

    /// Something is said of a connection; of one that is there no more nothing is heard.
    pub(crate) fn said(&mut self, number: u32, said: Said) {
        let Some(way) = self.open.get_mut(&number) else { return };
        let Some(inside) = &mut way.inside else { return };
        // What is said of a connection costs memory until its task comes to it: nothing, or more after the end, is not said
        // by any agent of ours.
        let empty = matches!(&said, Said::Bytes(bytes) if bytes.is_empty());
        if empty || (way.ended && matches!(said, Said::Bytes(_) | Said::End)) {
            return self.cut(number);
        }
        match said {
            Said::Bytes(bytes) => {
                let behind = way.behind.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len();
                // More than there was room for.
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
            // What it said before still goes to its host.
            Said::Gone if way.ended => way.inside = None,
            Said::Gone => drop(self.open.remove(&number)),
        }
    }

    /// Checks that the agent takes the orders to cut connections.
    ///
    /// # Errors
    /// When more of them wait than an agent of ours could cause: it breaks the rules and does not listen.
    pub(crate) fn check_backlog(&self) -> Result<(), ContainerError> {
        if self.first.len() <= MOST_CUT {
            return Ok(());
        }
        Err(ContainerError::Agent(format!("it broke the rules of connections more than {MOST_CUT} times")))
    }

    fn cut(&mut self, number: u32) {
        self.open.remove(&number);
        self.first.push_back(Order::Way(number, Said::Gone));
    }

    /// The next thing; never, while there is none. The wait can be given up.
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

    /// What was done, now that the job is over. What its programs have said to the end still goes to their hosts where the
    /// job ended by itself, if they take it soon; anything else is cut off, and its host hears that it was.
    pub(crate) async fn finish(self, by_itself: bool) -> NetUse {
        let Self { egress, mut open, mut tasks, orders, .. } = self;
        // Nobody is told anything any more.
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

/// The agent's end of one connection.
struct Line {
    number: u32,
    orders: mpsc::Sender<Order>,
    behind: Arc<AtomicUsize>,
    room: Arc<Semaphore>,
}

impl Line {
    async fn say(&self, said: Said) {
        // Nobody takes it once the job is over.
        let _ = self.orders.send(Order::Way(self.number, said)).await;
    }
}

/// One connection, until both sides or one of them is done.
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
        // The task of a connection that is given up before this is aborted.
        ended.notify_one();
        let _ = to_far.shutdown().await;
        let _ = hung_up.await;
        // A proxy says so of tunnels only: an answer that nobody reads any more must not hold a place for long.
        let patience = if through_proxy { LAST_WORDS } else { Duration::MAX };
        let _ = timeout(patience, delivered.notified()).await;
    };
    let inward = async {
        let mut buffer = vec![0; MOST_PIECE];
        while let Ok(count @ 1..) = from_far.read(&mut buffer).await {
            heard.store(true, Ordering::Relaxed);
            // Closed by nobody.
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
        // The program has hung up, and whoever it spoke to has all that it said.
        () = outward => {}
    }
}

async fn serve(near: DuplexStream, target: Target, egress: Egress, delivered: &Notify) {
    match target {
        Target::Proxy => proxy::serve(near, egress, || delivered.notify_one()).await,
        Target::Host(host, port) => {
            // A host that is refused or not there is a connection that ends; the report says why.
            if let Ok(remote) = egress.connect(&host, port).await {
                relay(near, remote, || delivered.notify_one()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
