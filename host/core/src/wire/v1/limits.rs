use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outcome::{LimitName, words};
use crate::limits::{self, ByteSize, EnforcementLevel, LayerState, Limit};

/// Limits and sandbox layers that were in effect during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Enforcement {
    /// Enforcement level of each limit.
    pub limits: BTreeMap<LimitName, HeldWord>,
    /// Gap in the coverage of each limit that had one in this run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncovered: BTreeMap<LimitName, String>,
    /// Sandbox layers between guest and host, the innermost first.
    pub walls: Vec<Wall>,
}

words! {
    /// Enforcement level of a limit.
    #[serde(rename_all = "kebab-case")]
    HeldWord of EnforcementLevel {
        /// Strict enforcement: the guest cannot exceed the limit.
        Enforced,
        /// Approximate enforcement: the limit is monitored, and may be exceeded for a moment or by a little.
        BestEffort,
        /// No enforcement.
        Unsupported,
    }
}

/// One sandbox layer between guest and host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wall {
    /// Name of the layer.
    pub name: String,
    /// State of the layer.
    pub state: WallWord,
    /// Effect of the layer, or the reason that it had none.
    pub detail: String,
}

words! {
    /// State of a sandbox layer.
    #[serde(rename_all = "snake_case")]
    WallWord of LayerState {
        /// Active.
        Held,
        /// Active in part.
        Partial,
        /// Turned off by the user.
        Off,
        /// Not offered by the system.
        Unavailable,
    }
}

/// Ceiling: a number, or the word `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LimitValue {
    /// At most this many.
    At(u64),
    /// No ceiling.
    Unlimited(Unlimited),
}

/// Word for the absence of a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unlimited {
    /// No ceiling.
    Unlimited,
}

/// Limits in force.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitsInForce {
    /// Milliseconds from start to end.
    pub wall_ms: LimitValue,
    /// Milliseconds of processor time.
    pub cpu_ms: LimitValue,
    /// Bytes of memory.
    pub memory_bytes: LimitValue,
    /// Bytes of output per stream.
    pub output_bytes: LimitValue,
    /// Bytes written to files.
    pub disk_bytes: LimitValue,
    /// Files and directories created.
    pub files: LimitValue,
    /// Files open at one time.
    pub open_files: LimitValue,
    /// Processes and threads at one time.
    pub processes: LimitValue,
    /// Counted instructions.
    pub fuel: LimitValue,
    /// Bytes to and from granted hosts.
    pub net_bytes: LimitValue,
    /// Connections to granted hosts.
    pub net_connections: LimitValue,
}

impl From<&limits::Limits> for LimitsInForce {
    fn from(limits: &limits::Limits) -> Self {
        let limits::Limits {
            wall,
            cpu,
            memory,
            output,
            disk,
            files,
            open_files,
            processes,
            fuel,
            net_bytes,
            net_connections,
        } = *limits;
        Self {
            wall_ms: value(wall, whole_millis),
            cpu_ms: value(cpu, whole_millis),
            memory_bytes: value(memory, ByteSize::get),
            output_bytes: value(output, ByteSize::get),
            disk_bytes: value(disk, ByteSize::get),
            files: value(files, Into::into),
            open_files: value(open_files, |n| n.get().into()),
            processes: value(processes, |n| n.get().into()),
            fuel: value(fuel, Into::into),
            net_bytes: value(net_bytes, ByteSize::get),
            net_connections: value(net_connections, Into::into),
        }
    }
}

fn value<T>(limit: Limit<T>, number: impl FnOnce(T) -> u64) -> LimitValue {
    match limit {
        Limit::Unlimited => LimitValue::Unlimited(Unlimited::Unlimited),
        Limit::At(ceiling) => LimitValue::At(number(ceiling)),
    }
}

/// Converts to milliseconds, rounded up so that a limit below one millisecond does not become 0.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl From<&limits::Enforcement> for Enforcement {
    fn from(enforcement: &limits::Enforcement) -> Self {
        let limits::Enforcement { limits, uncovered, layers } = enforcement;
        let wall = |limits::SandboxLayer { name, state, detail }: &limits::SandboxLayer| Wall {
            name: name.clone(),
            state: (*state).into(),
            detail: detail.clone(),
        };
        Self {
            limits: limits.iter().map(|(kind, held)| ((*kind).into(), (*held).into())).collect(),
            uncovered: uncovered.iter().map(|(kind, what)| ((*kind).into(), what.clone())).collect(),
            walls: layers.iter().map(wall).collect(),
        }
    }
}
