use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use codebox_core::{LimitKind, Limits, NetAttempt, NetRules, NetVerdict, NetworkUsage, Refusal, RefusalReason};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::dial::{DialError, DialedStream, Dialer, dial_direct};
use crate::error::{EgressError, timeout_error};
use crate::ledger::{Entry, Ledger};
use crate::roots::TlsRoots;
use crate::stream::Stream;
use crate::tls::{TlsConnection, TlsOffer};

/// The time limit for resolving and connecting together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The network limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// The number of bytes over all connections and both directions.
    pub bytes: Option<u64>,
    /// The number of connections to granted hosts, including failed ones.
    pub connections: Option<u64>,
    /// The time limit for resolving and connecting, and a second time for the TLS handshake.
    pub connect: Duration,
}

impl EgressLimits {
    /// Returns the network limits among a job's limits.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        Self {
            bytes: limits.net_bytes.at().map(|size| size.get()),
            connections: limits.net_connections.at().map(u64::from),
            connect: CONNECT_TIMEOUT,
        }
    }
}

/// The network access of one run. Clones share its state.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: NetRules,
    connect: Duration,
    dialer: Dialer,
    ledger: Arc<Ledger>,
    roots: OnceLock<TlsRoots>,
}

impl Egress {
    /// Creates network access by these rules. No certificate is trusted until [roots](Self::with_roots) are set.
    #[must_use]
    pub fn new(rules: NetRules, limits: EgressLimits, dialer: Dialer) -> Self {
        let EgressLimits { bytes, connections, connect } = limits;
        let ledger = Arc::new(Ledger::new(bytes, connections));
        Self(Arc::new(Shared { rules, connect, dialer, ledger, roots: OnceLock::new() }))
    }

    /// Sets the trusted roots. Roots that were set before remain.
    #[must_use]
    pub fn with_roots(self, roots: TlsRoots) -> Self {
        let _ = self.0.roots.set(roots);
        self
    }

    /// Connects to a host and records the attempt, whatever its result.
    ///
    /// # Errors
    /// An error if the host is not granted, a limit is reached, or the connection fails or times out.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Connection, EgressError> {
        let Shared { rules, connect, dialer, ledger, roots: _ } = &*self.0;
        let refused = |refusal: Refusal, address| {
            ledger.record(NetAttempt::new(host, port, address, NetVerdict::Refused(refusal.reason)));
            EgressError::Refused(refusal)
        };
        rules.name(host, port).map_err(|refusal| refused(refusal, None))?;
        ledger
            .claim_connection()
            .map_err(|kind| refused(Refusal::new(RefusalReason::Limit(kind), host, port, None), None))?;
        let entry = ledger.begin(NetAttempt::new(host, port, None, NetVerdict::Failed("cancelled".to_owned())));
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let dialed = timeout(*connect, async {
            match dialer {
                Dialer::Direct => dial_direct(rules, bare, port).await,
                Dialer::Other(other) => other.dial(bare, port).await,
            }
        });
        let failed = |source: std::io::Error| {
            entry.verdict(NetVerdict::Failed(source.to_string()), None);
            EgressError::Failed { host: host.to_owned(), port, source }
        };
        let refused = |refusal: Refusal| {
            let address = refusal.address();
            entry.verdict(NetVerdict::Refused(refusal.reason), address);
            EgressError::Refused(refusal)
        };
        let DialedStream { stream, address } = match dialed.await {
            Ok(Ok(dialed)) => dialed,
            Ok(Err(DialError::Refused(refusal))) => return Err(refused(refusal)),
            Ok(Err(DialError::Failed(error))) => return Err(failed(error)),
            Err(_late) => return Err(failed(timeout_error(*connect))),
        };
        // The dialer is trusted only to report the connected address, which is checked again here.
        rules.address(bare, address, port).map_err(refused)?;
        let stream = Stream::of(stream).map_err(failed)?;
        entry.verdict(NetVerdict::Allowed, Some(address));
        Ok(self.connection(stream, address, entry))
    }

    fn connection(&self, stream: Stream, address: IpAddr, entry: Entry) -> Connection {
        Connection::new(stream, address, entry, self.0.connect)
    }

    /// Connects to a host and establishes TLS under the host's name, with the parameters of `offer`.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), and if the handshake fails or no roots are trusted.
    pub async fn connect_tls(&self, host: &str, port: u16, offer: &TlsOffer<'_>) -> Result<TlsConnection, EgressError> {
        let no_roots = || EgressError::Tls {
            host: host.to_owned(),
            source: std::io::Error::other("no trusted root certificates"),
        };
        let roots = self.0.roots.get().ok_or_else(no_roots)?;
        self.connect(host, port).await?.start_tls(host, roots, offer).await
    }

    /// Returns the trusted roots, if any were set.
    #[must_use]
    pub fn roots(&self) -> Option<&TlsRoots> {
        self.0.roots.get()
    }

    /// Returns the network usage until now.
    #[must_use]
    pub fn used(&self) -> NetworkUsage {
        self.0.ledger.used()
    }

    /// Returns the limit that was reached, if any. No more bytes are transferred after that.
    #[must_use]
    pub fn reached_limit(&self) -> Option<LimitKind> {
        self.0.ledger.reached_limit()
    }

    /// Waits until a limit is reached.
    pub async fn limit_reached(&self) -> LimitKind {
        self.0.ledger.limit_reached().await
    }
}
