//! The network of one guest: requests of its prelude, and connections that the allow-list permits.
//!
//! A request is a head of fixed form ([`request`]) and bytes. An answer is empty or begins with a byte for its kind
//! ([`reply`]). Requests are untrusted and checked here, and [`Egress`], which opens every connection, alone decides
//! which hosts a guest may reach.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use codebox_core::{NetRules, NetworkUsage};
use codebox_egress::{Egress, Mask, Secrets, TlsMachine, TlsOffer, Transport};

mod fetch;
mod machine;
mod reply;
mod request;
mod secrets;
mod socket;
mod tls;

pub(crate) use reply::Reply;
pub(crate) use request::{Op, REQUEST_TAG, Request};

use fetch::Fetches;
use machine::Machine;
use request::WRITABLE;
use secrets::{SecretFilter, without_http2};
use socket::Socket;
use tls::{NegotiatedTls, TlsRequest};

/// Maximum number of connections, and of TLS state machines without a connection, that a guest may hold at once: more
/// than twice the hundred connections that Python's HTTP clients hold by default. Each takes up to 128 KiB on the host.
const MAX_OPEN: usize = 256;

/// Maximum bytes in one answer.
const MAX_ANSWER: usize = 1 << 20;

/// A guest's network grants and its open connections.
pub(crate) struct Net {
    egress: Egress,
    rules: NetRules,
    sockets: BTreeMap<u32, Socket>,
    machines: BTreeMap<u32, Machine>,
    fetches: Fetches,
    secrets: Secrets,
    /// Masks of the secrets in standard output and error.
    output_masks: [Mask; 2],
    /// The last handle assigned. Handles are never reused.
    last: u32,
}

/// Returns a guest's message to the host without the guest's secrets.
pub(crate) fn mask_text<'b>(net: Option<&Net>, message: &'b [u8]) -> Cow<'b, [u8]> {
    net.map_or(Cow::Borrowed(message), |net| net.output_masks[0].mask_text(message))
}

/// Returns the answer to every network request of a guest without network grants.
pub(crate) fn not_granted() -> Reply {
    Reply::failed("denied", "EACCES", "network access is not granted to this sandbox")
}

impl Net {
    /// Creates a network with this allow-list. `egress` enforces the list.
    pub(crate) fn new(egress: Egress, rules: NetRules, secrets: Secrets) -> Self {
        let fetches = Fetches::new(egress.clone(), secrets.clone());
        let output_masks = [secrets.mask(), secrets.mask()];
        let (sockets, machines) = (BTreeMap::new(), BTreeMap::new());
        Self { egress, rules, sockets, machines, fetches, secrets, output_masks, last: 0 }
    }

    /// Returns output of stream 0 or 1 without secrets.
    pub(crate) fn mask_output<'b>(&mut self, stream: usize, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.output_masks[stream].masked(bytes)
    }

    /// Returns the attempted connections and the transferred bytes.
    pub(crate) fn used(&self) -> NetworkUsage {
        self.egress.used()
    }

    /// Describes the open connections.
    pub(crate) fn describe_open(&self) -> Vec<String> {
        let connection = |socket: &Socket| {
            let (host, port) = socket.peer();
            format!("the connection to {host}:{port}")
        };
        let machines = (!self.machines.is_empty()).then(|| format!("{} TLS sessions", self.machines.len()));
        let fetches = (!self.fetches.is_idle()).then(|| "an HTTP request".to_owned());
        self.sockets.values().map(connection).chain(machines).chain(fetches).collect()
    }

    /// Returns the answer to a request, or `None` if the request is malformed.
    pub(crate) async fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        Some(self.perform(&Request::parse(request)?).await.into_bytes())
    }

    /// Performs an operation within its time limit.
    pub(crate) async fn perform(&mut self, request: &Request<'_>) -> Reply {
        let wait = match request.op {
            // A send reports the bytes that it has sent so far when its time is over, so it enforces the time itself.
            Op::Send => None,
            _ => request.wait,
        };
        let reply = with_timeout(wait, self.serve(request)).await.unwrap_or(Reply::Timeout);
        if self.egress.reached_limit().is_some() {
            // The limit ends the job. An error as the answer would let the guest react to the limit first.
            std::future::pending().await
        }
        reply
    }

    async fn serve(&mut self, request: &Request<'_>) -> Reply {
        let Request { op, handle, number, bytes, wait } = *request;
        match op {
            Op::Open => self.open(bytes, number).await,
            Op::Tls => self.start_tls(handle, bytes).await,
            Op::Poll => self.poll(bytes).await,
            Op::Machine => self.machine(bytes),
            Op::Step => match self.machines.get_mut(&handle) {
                Some(machine) => machine.process(number, bytes),
                None => Reply::closed(),
            },
            Op::Close => {
                if let Some(mut socket) = self.sockets.remove(&handle) {
                    socket.flush_held().await;
                }
                self.machines.remove(&handle);
                Reply::Empty
            }
            Op::Send | Op::Receive | Op::Shutdown => {
                let Some(socket) = self.sockets.get_mut(&handle) else { return Reply::closed() };
                match op {
                    Op::Send => socket.send(bytes, wait).await,
                    Op::Receive => {
                        if wait != Some(Duration::ZERO) {
                            socket.busy_poll();
                        }
                        socket.receive(number).await
                    }
                    _ => socket.shut_down().await,
                }
            }
            Op::Fetch(op) => self.fetches.serve(op, handle, number, bytes).await,
        }
    }

    /// Checks that one more connection or TLS machine may be open.
    fn check_capacity(&self) -> Result<(), Reply> {
        if self.sockets.len() + self.machines.len() < MAX_OPEN {
            return Ok(());
        }
        let text = format!(
            "at most {MAX_OPEN} connections can be open, and separate TLS sessions count as connections: \
             use fewer connections"
        );
        Err(Reply::failed("other", "EMFILE", &text))
    }

    fn next_handle(&mut self) -> Option<u32> {
        self.last = self.last.checked_add(1)?;
        Some(self.last)
    }

    async fn open(&mut self, host: &[u8], port: u32) -> Reply {
        let (Ok(host), Ok(port)) = (std::str::from_utf8(host), u16::try_from(port)) else {
            return Reply::failed("other", "EINVAL", "the host or the port is malformed");
        };
        if let Err(full) = self.check_capacity() {
            return full;
        }
        match self.egress.connect(host, port).await {
            Ok(connection) => {
                let Some(handle) = self.next_handle() else { return Reply::closed() };
                let mut answer = handle.to_le_bytes().to_vec();
                answer.extend(connection.address().to_string().bytes());
                let filter = self.secrets.for_host(host, Transport::Plain).map(SecretFilter::new);
                self.sockets.insert(handle, Socket::new(connection, host.to_owned(), port, filter));
                Reply::Done(answer)
            }
            Err(error) => Reply::from_egress(&error),
        }
    }

    async fn start_tls(&mut self, handle: u32, requested: &[u8]) -> Reply {
        let TlsRequest { name, alpn, versions } = match TlsRequest::decode(requested) {
            Ok(requested) => requested,
            Err(malformed) => return malformed,
        };
        let Some(socket) = self.sockets.remove(&handle) else { return Reply::closed() };
        let (host, port) = socket.peer();
        // TLS with a name other than the connected host is allowed only if the allow-list contains that name too.
        if name != host
            && let Err(refusal) = self.rules.name(&name, port)
        {
            return Reply::denied(&refusal);
        }
        let Some(roots) = self.egress.roots() else { return Reply::missing_roots() };
        let secrets = self.secrets.for_host(&name, Transport::Tls);
        let alpn = if secrets.is_some() { without_http2(alpn) } else { alpn };
        let offer = TlsOffer { alpn: &alpn, versions: versions.into() };
        match socket.start_tls(&name, &offer, roots, secrets.map(SecretFilter::new)).await {
            Ok((socket, facts)) => {
                self.sockets.insert(handle, socket);
                Reply::Done(NegotiatedTls::from_facts(facts).encode())
            }
            Err(error) => Reply::from_egress(&error),
        }
    }

    fn machine(&mut self, requested: &[u8]) -> Reply {
        let machine = match self.begin_tls(requested) {
            Ok(machine) => machine,
            Err(reply) => return reply,
        };
        let Some(handle) = self.next_handle() else { return Reply::closed() };
        self.machines.insert(handle, machine);
        Reply::Done(handle.to_le_bytes().to_vec())
    }

    /// Starts TLS with a granted host. The guest transfers the encrypted bytes itself.
    fn begin_tls(&self, requested: &[u8]) -> Result<Machine, Reply> {
        let TlsRequest { name, alpn, versions } = TlsRequest::decode(requested)?;
        self.rules.check_any_port(&name).map_err(|refusal| Reply::denied(&refusal))?;
        self.check_capacity()?;
        let roots = self.egress.roots().ok_or_else(Reply::missing_roots)?;
        let secrets = self.secrets.for_host(&name, Transport::Tls);
        let alpn = if secrets.is_some() { without_http2(alpn) } else { alpn };
        let offer = TlsOffer { alpn: &alpn, versions: versions.into() };
        let tls = TlsMachine::new(&name, roots, &offer).map_err(|error| Reply::from_egress(&error))?;
        Ok(Machine::new(tls, secrets.map(SecretFilter::new)))
    }

    /// Waits until one of these connections can be read or, if its interest has the flag `WRITABLE`, written to. Returns
    /// the interests that are ready.
    async fn poll(&mut self, interests: &[u8]) -> Reply {
        let interests: Vec<u32> =
            interests.chunks_exact(4).map(|each| u32::from_le_bytes([each[0], each[1], each[2], each[3]])).collect();
        let is_known = |interest: &u32| self.sockets.contains_key(&(interest & !WRITABLE));
        if interests.len() > 2 * MAX_OPEN || !interests.iter().all(is_known) {
            return Reply::closed();
        }
        let ready = std::future::poll_fn(|cx| {
            let mut ready = Vec::new();
            for interest in &interests {
                let polled = self.sockets.get_mut(&(interest & !WRITABLE)).map(|socket| match interest & WRITABLE {
                    0 => socket.poll_readable(cx),
                    _ => socket.poll_writable(cx),
                });
                if polled.is_some_and(|polled| polled.is_ready()) {
                    ready.extend(interest.to_le_bytes());
                }
            }
            if ready.is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(ready) }
        });
        Reply::Done(ready.await)
    }
}

/// Waits for a future for at most this time, without limit for `None`. With a time of zero, the future is polled once,
/// and again after the executor has processed the system's events.
async fn with_timeout<T>(wait: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match wait {
        None => Some(work.await),
        Some(Duration::ZERO) => tokio::select! {
            biased;
            done = work => Some(done),
            () = tokio::task::yield_now() => None,
        },
        Some(wait) => tokio::time::timeout(wait, work).await.ok(),
    }
}
