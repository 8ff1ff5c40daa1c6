use std::num::NonZeroU32;

/// Lowest amount of memory in MiB with which Podman starts containers.
const MIN_MEMORY: u32 = 512;

/// Highest amount of memory in MiB that a virtual machine has by default.
const DEFAULT_MAX_MEMORY: u32 = 4096;

/// Highest number of processors that a virtual machine has by default.
const DEFAULT_MAX_CPUS: u32 = 4;

/// Default size of the disk in GiB. The file takes the space that is used.
const DEFAULT_DISK: u32 = 32;

/// Resources of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmSpec {
    /// Number of processors.
    pub cpus: NonZeroU32,
    /// Memory in MiB, at least 512.
    pub memory: u32,
    /// Size of the disk in GiB.
    pub disk: u32,
}

impl VmSpec {
    /// Returns the default for a machine with this number of processors and this memory in MiB: up to four processors, and a quarter of the
    /// memory, at most 4 GiB.
    #[must_use]
    pub fn for_machine(cpus: u32, memory: u64) -> Self {
        let quarter = u32::try_from(memory / 4).unwrap_or(u32::MAX);
        Self {
            cpus: NonZeroU32::new(cpus.min(DEFAULT_MAX_CPUS)).unwrap_or(NonZeroU32::MIN),
            memory: quarter.clamp(MIN_MEMORY, DEFAULT_MAX_MEMORY),
            disk: DEFAULT_DISK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_depend_on_the_machine() {
        for (cpus, memory, expected) in
            [(0, 0, (1, 512)), (2, 8 << 10, (2, 2048)), (64, 256 << 10, (4, 4096)), (8, u64::MAX, (4, 4096))]
        {
            let spec = VmSpec::for_machine(cpus, memory);
            assert_eq!((spec.cpus.get(), spec.memory), expected);
        }
    }
}
