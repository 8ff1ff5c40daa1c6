//! Resource counts of a process, for comparison before and after a test.

use std::fs;

use anyhow::{Context as _, Result, ensure};

/// Descriptors, threads, mappings and resident memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceSnapshot {
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
    /// Memory mappings.
    pub mappings: usize,
    /// Resident memory in bytes.
    pub resident: u64,
}

impl ResourceSnapshot {
    /// Counts the resources of this process.
    ///
    /// # Errors
    /// Fails if `/proc` is missing.
    pub fn take() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let resident = resident.split_whitespace().next().context("no value")?.parse::<u64>()? << 10;
        Ok(Self {
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: fs::read_dir("/proc/self/task")?.count(),
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count(),
            resident,
        })
    }

    /// Checks that descriptors, threads and mappings have not grown since `before`, apart from the slack that an
    /// allocator needs. Memory is not checked.
    ///
    /// # Errors
    /// Returns the first count that grew.
    pub fn check_no_growth_since(&self, before: &Self) -> Result<()> {
        let Self { descriptors, threads, mappings, resident: _ } = *self;
        ensure!(descriptors <= before.descriptors + 2, "descriptors grew from {} to {descriptors}", before.descriptors);
        ensure!(threads <= before.threads + 2, "threads grew from {} to {threads}", before.threads);
        ensure!(mappings <= before.mappings + 10, "mappings grew from {} to {mappings}", before.mappings);
        Ok(())
    }

    /// Computes the least-squares slope, per step, of equally spaced values.
    #[must_use]
    pub fn slope(values: &[f64]) -> f64 {
        let count = values.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = values.iter().sum::<f64>() / count;
        let (mut above, mut below) = (0.0, 0.0);
        for (at, value) in values.iter().enumerate() {
            let off = at as f64 - middle;
            above += off * (value - mean);
            below += off * off;
        }
        if below == 0.0 { 0.0 } else { above / below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_slope_of_a_line() {
        assert!((ResourceSnapshot::slope(&[1.0, 3.0, 5.0, 7.0]) - 2.0).abs() < 1e-9);
        assert!(ResourceSnapshot::slope(&[4.0]).abs() < 1e-9);
    }
}
