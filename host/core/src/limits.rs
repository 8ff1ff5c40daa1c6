use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod cpus;
mod enforcement;
mod kind;
mod overrides;
mod parse;
mod size;

pub use cpus::{Cpus, parse_cpus};
pub use enforcement::{Enforcement, EnforcementLevel, LayerState, SandboxLayer};
pub use kind::LimitKind;
pub use overrides::LimitOverrides;
pub use parse::{LimitParseError, parse_count, parse_duration, parse_size};
pub use size::ByteSize;

/// Ceiling, or the absence of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Limit<T> {
    /// No ceiling.
    Unlimited,
    /// At most this much.
    At(T),
}

impl<T: Copy> Limit<T> {
    /// Returns the ceiling, or `None` for [`Limit::Unlimited`].
    pub const fn at(self) -> Option<T> {
        match self {
            Self::Unlimited => None,
            Self::At(value) => Some(value),
        }
    }
}

impl<T: Copy + Ord> Limit<T> {
    /// Returns the lower of two ceilings.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unlimited, limit) | (limit, Self::Unlimited) => limit,
            (Self::At(one), Self::At(two)) => Self::At(one.min(two)),
        }
    }
}

/// Limits on the resource use of a job.
///
/// Backends destructure this type without `..`, so that a new limit breaks the build of every backend that neither
/// enforces the limit nor reports it as unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Time from the program's start to its end; 60 seconds by default.
    pub wall: Limit<Duration>,
    /// Processor time; unlimited by default.
    pub cpu: Limit<Duration>,
    /// Memory, summed over all memory of the guest; 1 GiB by default.
    pub memory: Limit<ByteSize>,
    /// Output to each of stdout and stderr; 16 MiB by default.
    pub output: Limit<ByteSize>,
    /// Bytes written to files; 1 GiB by default.
    pub disk: Limit<ByteSize>,
    /// Files and directories created; 10,000 by default.
    pub files: Limit<NonZeroU64>,
    /// Files open at one time; 256 by default.
    pub open_files: Limit<NonZeroU32>,
    /// Processes and threads at one time; 64 by default.
    pub processes: Limit<NonZeroU32>,
    /// Instructions, as the engine counts them; unlimited by default.
    pub fuel: Limit<NonZeroU64>,
    /// Total bytes sent to and received from granted hosts; 1 GiB by default.
    pub net_bytes: Limit<ByteSize>,
    /// Connections to granted hosts, over the whole run; 10,000 by default.
    pub net_connections: Limit<NonZeroU64>,
}

const FILES: NonZeroU64 = NonZeroU64::new(10_000).expect("not zero");
const OPEN_FILES: NonZeroU32 = NonZeroU32::new(256).expect("not zero");
const PROCESSES: NonZeroU32 = NonZeroU32::new(64).expect("not zero");
const NET_CONNECTIONS: NonZeroU64 = NonZeroU64::new(10_000).expect("not zero");

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Limit::At(Duration::from_secs(60)),
            cpu: Limit::Unlimited,
            memory: Limit::At(ByteSize::gib(1)),
            output: Limit::At(ByteSize::mib(16)),
            disk: Limit::At(ByteSize::gib(1)),
            files: Limit::At(FILES),
            open_files: Limit::At(OPEN_FILES),
            processes: Limit::At(PROCESSES),
            fuel: Limit::Unlimited,
            net_bytes: Limit::At(ByteSize::gib(1)),
            net_connections: Limit::At(NET_CONNECTIONS),
        }
    }
}

impl Limits {
    /// Returns limits without any ceiling.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self {
            wall: Limit::Unlimited,
            cpu: Limit::Unlimited,
            memory: Limit::Unlimited,
            output: Limit::Unlimited,
            disk: Limit::Unlimited,
            files: Limit::Unlimited,
            open_files: Limit::Unlimited,
            processes: Limit::Unlimited,
            fuel: Limit::Unlimited,
            net_bytes: Limit::Unlimited,
            net_connections: Limit::Unlimited,
        }
    }

    /// Returns the lower of each pair of limits, such as an operator's ceiling and a request.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        let Self { wall, cpu, memory, output, disk, files, open_files, processes, fuel, net_bytes, net_connections } =
            self;
        Self {
            wall: wall.min(other.wall),
            cpu: cpu.min(other.cpu),
            memory: memory.min(other.memory),
            output: output.min(other.output),
            disk: disk.min(other.disk),
            files: files.min(other.files),
            open_files: open_files.min(other.open_files),
            processes: processes.min(other.processes),
            fuel: fuel.min(other.fuel),
            net_bytes: net_bytes.min(other.net_bytes),
            net_connections: net_connections.min(other.net_connections),
        }
    }

    /// Returns true if a ceiling of this kind is set.
    #[must_use]
    pub const fn is_limited(&self, kind: LimitKind) -> bool {
        match kind {
            LimitKind::Wall => self.wall.at().is_some(),
            LimitKind::Cpu => self.cpu.at().is_some(),
            LimitKind::Memory => self.memory.at().is_some(),
            LimitKind::Output => self.output.at().is_some(),
            LimitKind::Disk => self.disk.at().is_some(),
            LimitKind::Files => self.files.at().is_some(),
            LimitKind::OpenFiles => self.open_files.at().is_some(),
            LimitKind::Processes => self.processes.at().is_some(),
            LimitKind::Fuel => self.fuel.at().is_some(),
            LimitKind::NetBytes => self.net_bytes.at().is_some(),
            LimitKind::NetConnections => self.net_connections.at().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_match_documentation() {
        let limits = Limits::default();
        assert_eq!(limits.wall, Limit::At(Duration::from_secs(60)));
        assert_eq!(limits.memory.at().map(ByteSize::get), Some(1 << 30));
        assert_eq!(limits.output.at().map(ByteSize::get), Some(16 << 20));
        let unset = LimitKind::ALL.into_iter().filter(|kind| !limits.is_limited(*kind));
        assert_eq!(unset.collect::<Vec<_>>(), [LimitKind::Cpu, LimitKind::Fuel]);
    }

    #[test]
    fn min_takes_lower_value_of_each_limit() {
        let requested = Limits { memory: Limit::Unlimited, ..Limits::default() };
        let ceiling = Limits { wall: Limit::At(Duration::from_secs(5)), ..Limits::default() };
        let both = requested.min(ceiling);
        assert_eq!(both.wall, ceiling.wall);
        assert_eq!(both.memory, ceiling.memory);
        assert_eq!(Limits::unlimited().min(requested), requested);
    }
}
