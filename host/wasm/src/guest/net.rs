//! The network of one guest: requests of its prelude in, connections that the allow-list lets through out.
//!
//! A request is a head of fixed form ([`request`]) and bytes; an answer is empty or begins with a byte that says what it
//! is ([`reply`]). Everything a guest says is checked here and nothing of it is believed: what it may reach is decided by
//! [`Egress`] alone, which opens every connection there is.

use std::collections::BTreeMap;
use std::time::Duration;

use codebox_core::{NetRules, NetUse};
use codebox_egress::{Egress, TlsMachine, TlsOffer};

mod fetch;
mod machine;
mod reply;
mod request;
mod socket;
mod tls;

pub(crate) use request::MARK;

use fetch::Fetches;
use reply::Reply;
use request::{Op, ROOM, Request};
use socket::Socket;
use tls::{GotTls, WantedTls};

/// Connections, and machines for TLS apart from one, that a guest may hold at once: twice the hundred connections that clients
/// of Python hold by themselves, and some. Each takes up to 128 KiB here.
const MAX_OPEN: usize = 256;

/// Bytes that one answer carries at most.
const MAX_ANSWER: usize = 1 << 20;

/// What a guest was granted of the network, and what it holds of it.
pub(crate) struct Net {
    egress: Egress,
    rules: NetRules,
    sockets: BTreeMap<u32, Socket>,
    machines: BTreeMap<u32, TlsMachine>,
    fetches: Fetches,
    /// The number of the last handle that was given; none is given twice.
    last: u32,
}

/// What a guest that was granted nothing is answered, whatever it asks for.
pub(crate) fn not_granted() -> Vec<u8> {
    Reply::failed("denied", "EACCES", "network access is not granted to this sandbox").into_bytes()
}

impl Net {
    /// A network by this allow-list, behind `egress`, which holds to it.
    pub(crate) fn new(egress: Egress, rules: NetRules) -> Self {
        let fetches = Fetches::new(egress.clone());
        Self { egress, rules, sockets: BTreeMap::new(), machines: BTreeMap::new(), fetches, last: 0 }
    }

    /// What was tried and what went through.
    pub(crate) fn used(&self) -> NetUse {
        self.egress.used()
    }

    /// The answer to a request; nothing if it is none.
    pub(crate) async fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let request = Request::parse(request)?;
        let wait = match request.op {
            // What is done of it has to be told also if the rest is not.
            Op::Send => None,
            _ => request.wait,
        };
        let reply = in_time(wait, self.serve(&request)).await.unwrap_or(Reply::Late);
        if self.egress.over().is_some() {
            // The limit ends the job, and not an error that the guest could answer first.
            std::future::pending().await
        }
        Some(reply.into_bytes())
    }

    async fn serve(&mut self, request: &Request<'_>) -> Reply {
        let Request { op, handle, number, bytes, wait } = *request;
        match op {
            Op::Open => self.open(bytes, number).await,
            Op::Tls => self.start_tls(handle, bytes).await,
            Op::Poll => self.poll(bytes).await,
            Op::Machine => self.machine(bytes),
            Op::Turn => match self.machines.get_mut(&handle) {
                Some(machine) => machine::turn(machine, number, bytes),
                None => Reply::closed(),
            },
            Op::Close => {
                self.sockets.remove(&handle);
                self.machines.remove(&handle);
                Reply::Nothing
            }
            Op::Send | Op::Receive | Op::Shutdown => {
                let Some(socket) = self.sockets.get_mut(&handle) else { return Reply::closed() };
                match op {
                    Op::Send => socket.send(bytes, wait).await,
                    Op::Receive => {
                        if wait != Some(Duration::ZERO) {
                            socket.look_out();
                        }
                        socket.receive(number).await
                    }
                    _ => socket.shut_down().await,
                }
            }
            Op::Fetch(op) => self.fetches.serve(op, handle, number, bytes).await,
        }
    }

    /// Whether one more may be open.
    fn room(&self) -> Result<(), Reply> {
        if self.sockets.len() + self.machines.len() < MAX_OPEN {
            return Ok(());
        }
        let text = format!(
            "no more than {MAX_OPEN} connections may be open at once, TLS apart from one counted too: \
             have the client hold fewer"
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
        if let Err(full) = self.room() {
            return full;
        }
        match self.egress.connect(host, port).await {
            Ok(connection) => {
                let Some(handle) = self.next_handle() else { return Reply::closed() };
                let mut answer = handle.to_le_bytes().to_vec();
                answer.extend(connection.address().to_string().bytes());
                self.sockets.insert(handle, Socket::new(connection, host.to_owned(), port));
                Reply::Done(answer)
            }
            Err(error) => Reply::of_egress(&error),
        }
    }

    async fn start_tls(&mut self, handle: u32, wanted: &[u8]) -> Reply {
        let WantedTls { name, alpn, versions } = match WantedTls::read(wanted) {
            Ok(wanted) => wanted,
            Err(malformed) => return malformed,
        };
        let Some(socket) = self.sockets.remove(&handle) else { return Reply::closed() };
        let (host, port) = socket.place();
        // A certificate for another host than was connected to leads there only if that one is granted too.
        if name != host
            && let Err(refusal) = self.rules.name(&name, port)
        {
            return Reply::denied(&refusal);
        }
        let Some(roots) = self.egress.roots() else { return Reply::no_roots() };
        let offer = TlsOffer { alpn: &alpn, versions: versions.into() };
        match socket.start_tls(&name, &offer, roots).await {
            Ok((socket, facts)) => {
                self.sockets.insert(handle, socket);
                Reply::Done(GotTls::of(facts).told())
            }
            Err(error) => Reply::of_egress(&error),
        }
    }

    fn machine(&mut self, wanted: &[u8]) -> Reply {
        let machine = match self.begin_tls(wanted) {
            Ok(machine) => machine,
            Err(reply) => return reply,
        };
        let Some(handle) = self.next_handle() else { return Reply::closed() };
        self.machines.insert(handle, machine);
        Reply::Done(handle.to_le_bytes().to_vec())
    }

    /// Begins TLS whose bytes the guest carries itself, with a host that is granted.
    fn begin_tls(&self, wanted: &[u8]) -> Result<TlsMachine, Reply> {
        let WantedTls { name, alpn, versions } = WantedTls::read(wanted)?;
        self.rules.on_some_port(&name).map_err(|refusal| Reply::denied(&refusal))?;
        self.room()?;
        let roots = self.egress.roots().ok_or_else(Reply::no_roots)?;
        let offer = TlsOffer { alpn: &alpn, versions: versions.into() };
        TlsMachine::new(&name, roots, &offer).map_err(|error| Reply::of_egress(&error))
    }

    /// Waits until one of these can be read or, where that is what is wished, written to; tells which can.
    async fn poll(&mut self, wishes: &[u8]) -> Reply {
        let wishes: Vec<u32> =
            wishes.chunks_exact(4).map(|each| u32::from_le_bytes([each[0], each[1], each[2], each[3]])).collect();
        let is_known = |wish: &u32| self.sockets.contains_key(&(wish & !ROOM));
        if wishes.len() > 2 * MAX_OPEN || !wishes.iter().all(is_known) {
            return Reply::closed();
        }
        let ready = std::future::poll_fn(|cx| {
            let mut ready = Vec::new();
            for wish in &wishes {
                let polled = self.sockets.get_mut(&(wish & !ROOM)).map(|socket| match wish & ROOM {
                    0 => socket.poll_readable(cx),
                    _ => socket.poll_writable(cx),
                });
                if polled.is_some_and(|polled| polled.is_ready()) {
                    ready.extend(wish.to_le_bytes());
                }
            }
            if ready.is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(ready) }
        });
        Reply::Done(ready.await)
    }
}

/// What comes of a future in this time. One that is not to wait is polled once, and again after the executor has looked at
/// what the system has for it.
async fn in_time<T>(wait: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
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
