use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report;

/// What a run did on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetUse {
    /// The attempts to connect, those that are alike as one, in the order of the first of each.
    pub attempts: Vec<NetAttempt>,
    /// How many attempts there were of kinds that are not listed, because there were too many kinds.
    pub unlisted: u64,
    /// Bytes sent to granted hosts, over all connections.
    pub sent: u64,
    /// Bytes received from them.
    pub received: u64,
}

/// Attempts to connect to the same place of which the same came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetAttempt {
    /// The host as the guest wrote it.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was connected to, or that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What came of it.
    pub verdict: NetVerdict,
    /// Why it was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many there were.
    pub times: u64,
    /// Bytes sent, over all of them.
    pub sent: u64,
    /// Bytes received, over all of them.
    pub received: u64,
}

/// What came of an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetVerdict {
    /// It was allowed and connected.
    Allowed,
    /// It was refused.
    Refused,
    /// It was allowed and could not be connected.
    Failed,
}

impl From<&report::NetUse> for NetUse {
    fn from(used: &report::NetUse) -> Self {
        let report::NetUse { attempts, unlisted, sent, received } = used;
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
