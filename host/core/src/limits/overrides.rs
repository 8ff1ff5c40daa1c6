use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::{ByteSize, Limit, LimitKind, Limits};

/// The limits that somebody set by name; `None` leaves a limit as it is.
///
/// Kept apart from [`Limits`], because a limit that a user set and a backend cannot hold is refused, while a
/// default that it cannot hold is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitOverrides {
    /// Overrides [`Limits::wall`].
    pub wall: Option<Limit<Duration>>,
    /// Overrides [`Limits::cpu`].
    pub cpu: Option<Limit<Duration>>,
    /// Overrides [`Limits::memory`].
    pub memory: Option<Limit<ByteSize>>,
    /// Overrides [`Limits::output`].
    pub output: Option<Limit<ByteSize>>,
    /// Overrides [`Limits::disk`].
    pub disk: Option<Limit<ByteSize>>,
    /// Overrides [`Limits::files`].
    pub files: Option<Limit<NonZeroU64>>,
    /// Overrides [`Limits::open_files`].
    pub open_files: Option<Limit<NonZeroU32>>,
    /// Overrides [`Limits::processes`].
    pub processes: Option<Limit<NonZeroU32>>,
    /// Overrides [`Limits::fuel`].
    pub fuel: Option<Limit<NonZeroU64>>,
    /// Overrides [`Limits::net_bytes`].
    pub net_bytes: Option<Limit<ByteSize>>,
    /// Overrides [`Limits::net_connections`].
    pub net_connections: Option<Limit<NonZeroU64>>,
}

impl LimitOverrides {
    /// `base` with what is set here in its place.
    #[must_use]
    pub fn over(&self, base: Limits) -> Limits {
        let Self { wall, cpu, memory, output, disk, files, open_files, processes, fuel, net_bytes, net_connections } =
            *self;
        Limits {
            wall: wall.unwrap_or(base.wall),
            cpu: cpu.unwrap_or(base.cpu),
            memory: memory.unwrap_or(base.memory),
            output: output.unwrap_or(base.output),
            disk: disk.unwrap_or(base.disk),
            files: files.unwrap_or(base.files),
            open_files: open_files.unwrap_or(base.open_files),
            processes: processes.unwrap_or(base.processes),
            fuel: fuel.unwrap_or(base.fuel),
            net_bytes: net_bytes.unwrap_or(base.net_bytes),
            net_connections: net_connections.unwrap_or(base.net_connections),
        }
    }

    /// The limits that must be held: those set here to a ceiling.
    pub fn required(&self) -> impl Iterator<Item = LimitKind> + use<> {
        let set = self.over(Limits::unlimited());
        LimitKind::ALL.into_iter().filter(move |kind| set.is_limited(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ceilings_that_were_set_are_required() {
        let set = LimitOverrides {
            cpu: Some(Limit::At(Duration::from_secs(1))),
            wall: Some(Limit::Unlimited),
            ..LimitOverrides::default()
        };
        assert_eq!(set.required().collect::<Vec<_>>(), [LimitKind::Cpu]);
        let limits = set.over(Limits::default());
        assert_eq!(limits.wall, Limit::Unlimited);
        assert_eq!(limits.memory, Limits::default().memory);
    }
}
