use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Denial, DenialKind};
use crate::grants::{Refusal, RefusalReason, authority, shortened};

/// What a run did on the network: every attempt, allowed or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetUse {
    /// The attempts, those that are alike as one, in the order of the first of each; at most [`NetUse::MOST_LISTED`] kinds.
    pub attempts: Vec<NetAttempt>,
    /// How many attempts there were of kinds that are not listed.
    pub unlisted: u64,
    /// Bytes sent to granted hosts, over all connections.
    pub sent: u64,
    /// Bytes received from them.
    pub received: u64,
}

/// Attempts to connect to the same place of which the same came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetAttempt {
    /// The host as the guest wrote it, shortened if it is long.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was connected to, or that was refused.
    pub address: Option<IpAddr>,
    /// What came of it.
    pub verdict: NetVerdict,
    /// How many there were.
    pub times: u64,
    /// Bytes sent, over all of them.
    pub sent: u64,
    /// Bytes received, over all of them.
    pub received: u64,
}

/// What came of an attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetVerdict {
    /// It was allowed and connected.
    Allowed,
    /// It was refused, and nothing left this machine.
    Refused(RefusalReason),
    /// It was allowed and could not be connected; why, in one line.
    Failed(String),
}

impl NetAttempt {
    /// An attempt on `host` and `port`.
    #[must_use]
    pub fn new(host: &str, port: u16, address: Option<IpAddr>, verdict: NetVerdict) -> Self {
        Self { host: shortened(host), port, address, verdict, times: 1, sent: 0, received: 0 }
    }

    /// Whether this and another went to the same place, and the same came of them.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let Self { host, port, address, verdict, times: _, sent: _, received: _ } = self;
        (host, port, address, verdict) == (&other.host, &other.port, &other.address, &other.verdict)
    }
}

impl NetUse {
    /// Most refused hosts that are told as denials.
    pub const MOST_DENIALS: usize = 16;

    /// Most kinds of attempts that are listed.
    pub const MOST_LISTED: usize = 256;

    /// Whether nothing was attempted.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        let Self { attempts, unlisted, sent, received } = self;
        attempts.is_empty() && *unlisted == 0 && *sent == 0 && *received == 0
    }

    /// Whether anything was connected to: from then on, others may have seen what the run did.
    #[must_use]
    pub fn reached_anybody(&self) -> bool {
        // A connection whose TLS failed is listed as failed, and the other side has seen it.
        let moved = self.sent > 0 || self.received > 0;
        moved || self.unlisted > 0 || self.attempts.iter().any(|attempt| attempt.verdict == NetVerdict::Allowed)
    }

    /// The first refused ones among the listed attempts, each host and port once, as denials with their fix.
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
        self.attempts.iter().filter_map(denial).take(Self::MOST_DENIALS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_host_is_a_denial_once() {
        let refused = |host| NetAttempt::new(host, 80, None, NetVerdict::Refused(RefusalReason::NotGranted));
        let allowed = NetAttempt::new("c.org", 80, None, NetVerdict::Allowed);
        let attempts = vec![refused("a.org"), refused("b.org"), allowed, refused("a.org")];
        let used = NetUse { attempts, ..NetUse::default() };
        let hints: Vec<_> = used.denials().into_iter().map(|denial| denial.hint).collect();
        assert_eq!(hints, ["add --net a.org:80", "add --net b.org:80"]);
        assert!(used.reached_anybody() && !used.is_none() && NetUse::default().is_none());
    }

    #[test]
    fn whoever_was_sent_a_byte_was_reached() {
        let failed = NetAttempt::new("a.org", 443, None, NetVerdict::Failed("TLS: no".to_owned()));
        let refused = NetAttempt::new("b.org", 443, None, NetVerdict::Refused(RefusalReason::NotGranted));
        let used = NetUse { attempts: vec![failed, refused], ..NetUse::default() };
        assert!(!used.reached_anybody());
        assert!(NetUse { sent: 1, ..used }.reached_anybody());
    }
}
