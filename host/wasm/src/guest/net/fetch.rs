//! HTTP exchanges for guests whose language has `fetch`: the host implements HTTP.
//!
//! The exchanges make progress while the guest waits for one of them, and end with the guest: none is spawned on an
//! executor.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use codebox_egress::{Egress, Secrets};
use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};

mod body;
mod exchange;
mod idle;

use super::MAX_ANSWER;
use super::reply::Reply;
use super::request::{FetchOp, WRITABLE};
use body::BodyWriter;
use idle::IdleConnections;

/// Maximum number of concurrent exchanges of a guest.
const MAX_FETCHES: usize = 64;

/// Maximum number of pieces of a response that are buffered for the guest.
const MAX_BUFFERED_EVENTS: usize = 4;

/// Maximum bytes of complete request bodies that the host holds for all exchanges together.
const MAX_WHOLE_BODIES: usize = 16 << 20;

/// Maximum time that a complete body waits until enough of the others is sent.
const BODY_SPACE_TIMEOUT: Duration = Duration::from_secs(10);

/// The exchanges of one guest.
pub(super) struct Fetches {
    context: Arc<ExchangeContext>,
    running: BTreeMap<u32, Fetch>,
    last: u32,
    /// Permits for the bytes of complete bodies.
    space: Arc<Semaphore>,
    /// The futures of the exchanges and of their connections.
    work: FuturesUnordered<Work>,
    more_work: mpsc::UnboundedReceiver<Work>,
}

/// A future that makes progress while the guest waits.
pub(super) type Work = BoxFuture<'static, ()>;

/// The parts that exchanges need to reach a server.
pub(super) struct ExchangeContext {
    pub egress: Egress,
    pub secrets: Secrets,
    idle: IdleConnections,
    /// Queue for the futures that drive connections.
    pub work: mpsc::UnboundedSender<Work>,
}

/// An exchange from the guest's side. Dropping it aborts the exchange.
struct Fetch {
    events: mpsc::Receiver<Event>,
    /// An event that was received and is not passed to the guest yet.
    next: Option<Event>,
    body: Option<BodyWriter>,
    abort: AbortHandle,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// An event of an exchange.
pub(super) enum Event {
    Head(ResponseHead),
    Data(Bytes),
    End,
    Failed(Reply),
}

/// A request of a guest to a server, without its body.
#[derive(Deserialize)]
pub(super) struct RequestHead {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// True if the body follows in pieces.
    pub streams: bool,
    /// The length of the body, if it is known in advance.
    pub length: Option<u64>,
}

/// A server's response, without its body.
#[derive(Serialize)]
pub(super) struct ResponseHead {
    pub status: u16,
    pub text: String,
    /// The headers in the order received. Bytes outside of ASCII are read as Latin-1.
    pub headers: Vec<(String, String)>,
}

impl Fetches {
    /// Returns true if no exchange is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn new(egress: Egress, secrets: Secrets) -> Self {
        let (work, more_work) = mpsc::unbounded_channel();
        let context = Arc::new(ExchangeContext { egress, secrets, idle: IdleConnections::default(), work });
        let space = Arc::new(Semaphore::new(MAX_WHOLE_BODIES));
        Self { context, running: BTreeMap::new(), last: 0, space, work: FuturesUnordered::new(), more_work }
    }

    pub(super) async fn serve(&mut self, op: FetchOp, handle: u32, number: u32, bytes: &[u8]) -> Reply {
        match op {
            FetchOp::Start => {
                let reply = self.start(number, bytes).await;
                self.poll_once().await;
                reply
            }
            FetchOp::Body => {
                let reply = self.body(handle, number, bytes);
                self.poll_once().await;
                reply
            }
            FetchOp::Next => self.next(handle).await,
            FetchOp::Abort => {
                self.running.remove(&handle);
                self.poll_once().await;
                Reply::Empty
            }
            FetchOp::Wait => self.wait(bytes).await,
        }
    }

    /// Polls the exchanges once, without waiting.
    async fn poll_once(&mut self) {
        std::future::poll_fn(|cx| {
            self.poll_work(cx);
            Poll::Ready(())
        })
        .await;
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) {
        loop {
            while let Ok(work) = self.more_work.try_recv() {
                self.work.push(work);
            }
            match self.work.poll_next_unpin(cx) {
                Poll::Ready(Some(())) => {}
                // New work that the poll has just queued has to be polled too.
                Poll::Ready(None) | Poll::Pending if self.more_work.is_empty() => return,
                Poll::Ready(None) | Poll::Pending => {}
            }
        }
    }

    async fn start(&mut self, head: u32, bytes: &[u8]) -> Reply {
        let parts = usize::try_from(head).ok().and_then(|head| bytes.split_at_checked(head));
        let Some((Ok(head), body)) = parts.map(|(head, body)| (serde_json::from_slice::<RequestHead>(head), body))
        else {
            return Reply::failed("other", "EINVAL", "the request is malformed");
        };
        if self.running.len() >= MAX_FETCHES {
            return Reply::failed("other", "EMFILE", &format!("at most {MAX_FETCHES} requests can run concurrently"));
        }
        let body = match self.buffer_body(body).await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let Some(handle) = self.last.checked_add(1) else { return Reply::closed() };
        self.last = handle;
        let (event_sender, events) = mpsc::channel(MAX_BUFFERED_EVENTS);
        let (write, more) = if head.streams { Some(BodyWriter::new()).unzip() } else { (None, None) };
        let (abort, aborted) = AbortHandle::new_pair();
        let exchange = Abortable::new(exchange::run(self.context.clone(), head, body, more, event_sender), aborted);
        self.work.push(Box::pin(async {
            let _result = exchange.await;
        }));
        self.running.insert(handle, Fetch { events, next: None, body: write, abort });
        Reply::Done(handle.to_le_bytes().to_vec())
    }

    /// Copies a complete body, once there is space for it beside the others.
    async fn buffer_body(&mut self, body: &[u8]) -> Result<Bytes, Reply> {
        if body.is_empty() {
            return Ok(Bytes::new());
        }
        let permits = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let mut space = pin!(Arc::clone(&self.space).acquire_many_owned(permits));
        let acquired = std::future::poll_fn(|cx| {
            self.poll_work(cx);
            space.as_mut().poll(cx)
        });
        match tokio::time::timeout(BODY_SPACE_TIMEOUT, acquired).await {
            Ok(Ok(space)) => Ok(body::held_bytes(body, space)),
            Ok(Err(_)) | Err(_) => {
                let text = "no buffer space for the body: servers do not read the bodies of other requests";
                Err(Reply::failed("other", "ENOBUFS", text))
            }
        }
    }

    /// Accepts a piece of a body. The guest has to send the piece again if there is no space for all of it.
    fn body(&mut self, handle: u32, last: u32, bytes: &[u8]) -> Reply {
        let Some(fetch) = self.running.get_mut(&handle) else { return Reply::closed() };
        let Some(writer) = &mut fetch.body else { return Reply::closed() };
        if !writer.write(bytes) {
            return Reply::Timeout;
        }
        if last == 1 {
            fetch.body = None;
        }
        Reply::Empty
    }

    async fn next(&mut self, handle: u32) -> Reply {
        let event = std::future::poll_fn(|cx| {
            self.poll_work(cx);
            let Some(fetch) = self.running.get_mut(&handle) else { return Poll::Ready(None) };
            if fetch.poll_next(cx).is_pending() {
                return Poll::Pending;
            }
            Poll::Ready(fetch.next.take())
        });
        let Some(event) = event.await else { return Reply::closed() };
        let with = |kind: u8, rest: &[u8]| {
            let mut answer = Vec::with_capacity(rest.len() + 1);
            answer.push(kind);
            answer.extend_from_slice(rest);
            Reply::Done(answer)
        };
        match event {
            Event::Head(head) => with(b'h', &serde_json::to_vec(&head).unwrap_or_default()),
            Event::Data(mut data) => {
                let given = data.split_to(data.len().min(MAX_ANSWER));
                if let (false, Some(fetch)) = (data.is_empty(), self.running.get_mut(&handle)) {
                    fetch.next = Some(Event::Data(data));
                }
                with(b'd', &given)
            }
            Event::End => {
                self.running.remove(&handle);
                with(b'e', &[])
            }
            Event::Failed(reply) => {
                self.running.remove(&handle);
                reply
            }
        }
    }

    /// Waits until one of these exchanges has an event or, if its interest has the flag `WRITABLE`, accepts more of its
    /// body. Returns the interests that are ready.
    async fn wait(&mut self, interests: &[u8]) -> Reply {
        if interests.len() / 4 > 2 * MAX_FETCHES {
            return Reply::closed();
        }
        let ready = std::future::poll_fn(|cx| {
            self.poll_work(cx);
            let mut ready = Vec::new();
            for interest in interests.chunks_exact(4) {
                let word = interest.try_into().map_or(0, u32::from_le_bytes);
                let polled = match self.running.get_mut(&(word & !WRITABLE)) {
                    // The next request for the exchange reports that it does not exist any more.
                    None => Poll::Ready(()),
                    Some(fetch) if word & WRITABLE == 0 => fetch.poll_next(cx),
                    Some(fetch) => fetch.poll_space(cx),
                };
                if polled.is_ready() {
                    ready.extend_from_slice(interest);
                }
            }
            if ready.is_empty() { Poll::Pending } else { Poll::Ready(ready) }
        });
        Reply::Done(ready.await)
    }
}

impl Fetch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.next.is_none() {
            let event = std::task::ready!(self.events.poll_recv(cx));
            self.next = Some(event.unwrap_or(Event::Failed(Reply::closed())));
        }
        Poll::Ready(())
    }

    /// Returns ready once there is space for more of the exchange's body.
    fn poll_space(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.as_mut().map_or(Poll::Ready(()), |writer| writer.poll_space(cx))
    }
}
