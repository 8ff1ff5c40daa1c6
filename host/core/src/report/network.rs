use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Denial, DenialKind};
use crate::grants::{Refusal, RefusalReason, authority, shorten_host};

/// Network activity of a run: every attempt to connect, allowed or not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Attempts, like ones merged, in the order of their first occurrence; at most [`NetworkUsage::MAX_LISTED`] entries.
    pub attempts: Vec<NetAttempt>,
    /// Number of attempts that belong to no listed entry.
    pub unlisted: u64,
    /// Bytes sent to granted hosts, over all connections.
    pub sent: u64,
    /// Bytes received from granted hosts, over all connections.
    pub received: u64,
}

/// Attempts to connect to the same place with the same result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetAttempt {
    /// Host as the guest wrote it, shortened if it is long.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Address that was connected to, or that was refused.
    pub address: Option<IpAddr>,
    /// Result of the attempts.
    pub verdict: NetVerdict,
    /// Number of attempts.
    pub times: u64,
    /// Bytes sent, over all attempts.
    pub sent: u64,
    /// Bytes received, over all attempts.
    pub received: u64,
}

/// Result of an attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetVerdict {
    /// An attempt that was allowed and connected.
    Allowed,
    /// An attempt that was refused before any connection left this machine.
    Refused(RefusalReason),
    /// An attempt that was allowed but could not be connected, with the reason in one line.
    Failed(String),
}

impl NetAttempt {
    /// Creates an entry for one attempt on `host` and `port`.
    #[must_use]
    pub fn new(host: &str, port: u16, address: Option<IpAddr>, verdict: NetVerdict) -> Self {
        Self { host: shorten_host(host), port, address, verdict, times: 1, sent: 0, received: 0 }
    }

    /// Returns true if both entries have the same host, port, address and result.
    #[must_use]
    pub fn is_same_attempt(&self, other: &Self) -> bool {
        let Self { host, port, address, verdict, times: _, sent: _, received: _ } = self;
        (host, port, address, verdict) == (&other.host, &other.port, &other.address, &other.verdict)
    }
}

impl NetworkUsage {
    /// Maximum number of refused hosts that are reported as denials.
    pub const MAX_DENIALS: usize = 16;

    /// Maximum number of listed entries.
    pub const MAX_LISTED: usize = 256;

    /// Returns the activity since an earlier state of the same record.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let change = |attempt: &NetAttempt| {
            let mut attempt = attempt.clone();
            if let Some(before) = earlier.attempts.iter().find(|before| before.is_same_attempt(&attempt)) {
                attempt.times = attempt.times.saturating_sub(before.times);
                attempt.sent = attempt.sent.saturating_sub(before.sent);
                attempt.received = attempt.received.saturating_sub(before.received);
            }
            let is_unchanged = (attempt.times, attempt.sent, attempt.received) == (0, 0, 0);
            (!is_unchanged).then_some(attempt)
        };
        Self {
            attempts: self.attempts.iter().filter_map(change).collect(),
            unlisted: self.unlisted.saturating_sub(earlier.unlisted),
            sent: self.sent.saturating_sub(earlier.sent),
            received: self.received.saturating_sub(earlier.received),
        }
    }

    /// Returns true if no connection was attempted.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        let Self { attempts, unlisted, sent, received } = self;
        attempts.is_empty() && *unlisted == 0 && *sent == 0 && *received == 0
    }

    /// Returns true if the run may have connected to a host, so that others may have seen its actions.
    #[must_use]
    pub fn may_have_connected(&self) -> bool {
        // A connection whose TLS handshake failed is listed as failed, although the other side has seen it.
        let has_traffic = self.sent > 0 || self.received > 0;
        has_traffic || self.unlisted > 0 || self.attempts.iter().any(|attempt| attempt.verdict == NetVerdict::Allowed)
    }

    /// Returns the first refused attempts in the list as denials with their fix, each host and port once.
    #[must_use]
    pub fn denials(&self) -> Vec<Denial> {
        let mut seen = BTreeSet::new();
        let denial = |attempt: &NetAttempt| {
            let NetAttempt { host, port, address, verdict, times: _, sent: _, received: _ } = attempt;
            let NetVerdict::Refused(reason) = verdict else { return None };
            let detail = authority(host, *port);
            let hint = Refusal::new(*reason, host, *port, *address).fix().unwrap_or_else(|| reason.to_string());
            seen.insert((detail.clone(), hint.clone())).then_some(Denial { what: DenialKind::Net, detail, hint })
        };
        self.attempts.iter().filter_map(denial).take(Self::MAX_DENIALS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_each_refused_host_once() {
        let refused = |host| NetAttempt::new(host, 80, None, NetVerdict::Refused(RefusalReason::NotGranted));
        let allowed = NetAttempt::new("c.org", 80, None, NetVerdict::Allowed);
        let attempts = vec![refused("a.org"), refused("b.org"), allowed, refused("a.org")];
        let used = NetworkUsage { attempts, ..NetworkUsage::default() };
        let hints: Vec<_> = used.denials().into_iter().map(|denial| denial.hint).collect();
        assert_eq!(hints, ["add --net a.org:80", "add --net b.org:80"]);
        assert!(used.may_have_connected() && !used.is_none() && NetworkUsage::default().is_none());
    }

    #[test]
    fn activity_since_an_earlier_state() {
        let attempt =
            |host, times, sent| NetAttempt { times, sent, ..NetAttempt::new(host, 80, None, NetVerdict::Allowed) };
        let before = NetworkUsage {
            attempts: vec![attempt("a.org", 1, 5), attempt("b.org", 2, 0)],
            sent: 5,
            ..NetworkUsage::default()
        };
        let attempts = vec![attempt("a.org", 1, 9), attempt("b.org", 2, 0), attempt("c.org", 1, 0)];
        let after = NetworkUsage { attempts, sent: 9, received: 1, ..NetworkUsage::default() };
        let since = after.since(&before);
        assert_eq!(since.attempts, [attempt("a.org", 0, 4), attempt("c.org", 1, 0)]);
        assert_eq!((since.sent, since.received), (4, 1));
        assert!(after.since(&after).is_none());
    }

    #[test]
    fn sent_bytes_count_as_connection() {
        let failed = NetAttempt::new("a.org", 443, None, NetVerdict::Failed("TLS: no".to_owned()));
        let refused = NetAttempt::new("b.org", 443, None, NetVerdict::Refused(RefusalReason::NotGranted));
        let used = NetworkUsage { attempts: vec![failed, refused], ..NetworkUsage::default() };
        assert!(!used.may_have_connected());
        assert!(NetworkUsage { sent: 1, ..used }.may_have_connected());
    }
}
