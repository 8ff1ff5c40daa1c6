use serde::{Deserialize, Serialize};

use crate::report;

/// Network activity of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetUse {
    /// Attempts to connect, like ones merged, in the order of their first occurrence.
    pub attempts: Vec<NetAttempt>,
    /// Number of attempts that belong to no listed entry, because there were too many different ones.
    pub unlisted: u64,
    /// Bytes sent to granted hosts, over all connections.
    pub sent: u64,
    /// Bytes received from granted hosts, over all connections.
    pub received: u64,
}

/// Attempts to connect to the same place with the same result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetAttempt {
    /// Host as the guest wrote it.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Address that was connected to, or that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Result of the attempts.
    pub verdict: NetVerdict,
    /// Reason that the attempts were refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of attempts.
    pub times: u64,
    /// Bytes sent, over all attempts.
    pub sent: u64,
    /// Bytes received, over all attempts.
    pub received: u64,
}

/// Result of an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetVerdict {
    /// An attempt that was allowed and connected.
    Allowed,
    /// An attempt that was refused.
    Refused,
    /// An attempt that was allowed but could not be connected.
    Failed,
}

impl From<&report::NetworkUsage> for NetUse {
    fn from(used: &report::NetworkUsage) -> Self {
        let report::NetworkUsage { attempts, unlisted, sent, received } = used;
        Self {
            attempts: attempts.iter().map(NetAttempt::from).collect(),
            unlisted: *unlisted,
            sent: *sent,
            received: *received,
        }
    }
}

impl From<&report::NetAttempt> for NetAttempt {
    fn from(attempt: &report::NetAttempt) -> Self {
        let report::NetAttempt { host, port, address, verdict, times, sent, received } = attempt;
        let (verdict, reason) = match verdict {
            report::NetVerdict::Allowed => (NetVerdict::Allowed, None),
            report::NetVerdict::Refused(reason) => (NetVerdict::Refused, Some(reason.to_string())),
            report::NetVerdict::Failed(why) => (NetVerdict::Failed, Some(why.clone())),
        };
        Self {
            host: host.clone(),
            port: *port,
            address: address.map(|address| address.to_string()),
            verdict,
            reason,
            times: *times,
            sent: *sent,
            received: *received,
        }
    }
}
