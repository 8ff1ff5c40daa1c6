use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ByteSize, Limit, LimitKind, Limits};

/// Limits that were set explicitly; `None` leaves a limit unchanged.
///
/// This type is separate from [`Limits`], because a limit that a user set and a backend cannot enforce is refused,
/// while a default limit that the backend cannot enforce is only reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitOverrides {
    /// Override of [`Limits::wall`].
    pub wall: Option<Limit<Duration>>,
    /// Override of [`Limits::cpu`].
    pub cpu: Option<Limit<Duration>>,
    /// Override of [`Limits::memory`].
    pub memory: Option<Limit<ByteSize>>,
    /// Override of [`Limits::output`].
    pub output: Option<Limit<ByteSize>>,
    /// Override of [`Limits::disk`].
    pub disk: Option<Limit<ByteSize>>,
    /// Override of [`Limits::files`].
    pub files: Option<Limit<NonZeroU64>>,
    /// Override of [`Limits::open_files`].
    pub open_files: Option<Limit<NonZeroU32>>,
    /// Override of [`Limits::processes`].
    pub processes: Option<Limit<NonZeroU32>>,
    /// Override of [`Limits::fuel`].
    pub fuel: Option<Limit<NonZeroU64>>,
    /// Override of [`Limits::net_bytes`].
    pub net_bytes: Option<Limit<ByteSize>>,
    /// Override of [`Limits::net_connections`].
    pub net_connections: Option<Limit<NonZeroU64>>,
}

impl LimitOverrides {
    /// Returns the overrides that turn `base` into `limits`.
    #[must_use]
    pub fn between(base: &Limits, limits: &Limits) -> Self {
        fn changed<T: Copy + PartialEq>(base: T, value: T) -> Option<T> {
            (base != value).then_some(value)
        }
        let Limits { wall, cpu, memory, output, disk, files, open_files, processes, fuel, net_bytes, net_connections } =
            *limits;
        Self {
            wall: changed(base.wall, wall),
            cpu: changed(base.cpu, cpu),
            memory: changed(base.memory, memory),
            output: changed(base.output, output),
            disk: changed(base.disk, disk),
            files: changed(base.files, files),
            open_files: changed(base.open_files, open_files),
            processes: changed(base.processes, processes),
            fuel: changed(base.fuel, fuel),
            net_bytes: changed(base.net_bytes, net_bytes),
            net_connections: changed(base.net_connections, net_connections),
        }
    }

    /// Returns `base` with the overrides applied.
    #[must_use]
    pub fn apply_to(&self, base: Limits) -> Limits {
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

    /// Returns the limits that a backend must enforce: those that are set to a ceiling here.
    pub fn required(&self) -> impl Iterator<Item = LimitKind> + use<> {
        let set = self.apply_to(Limits::unlimited());
        LimitKind::ALL.into_iter().filter(move |kind| set.is_limited(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_only_explicit_ceilings() {
        let set = LimitOverrides {
            cpu: Some(Limit::At(Duration::from_secs(1))),
            wall: Some(Limit::Unlimited),
            ..LimitOverrides::default()
        };
        assert_eq!(set.required().collect::<Vec<_>>(), [LimitKind::Cpu]);
        let limits = set.apply_to(Limits::default());
        assert_eq!(limits.wall, Limit::Unlimited);
        assert_eq!(limits.memory, Limits::default().memory);
    }
}
