//! Strips the types from a guest's TypeScript while the guest waits.

use std::io;
use std::time::Duration;

use codebox_analysis::{Analyzer, Budget, StripRequest};
use codebox_core::Limits;
use tokio::sync::oneshot;

use crate::interrupt::HostCpuTime;

/// Type stripper for the TypeScript that one guest loads, within the guest's limits.
#[derive(Debug, Clone)]
pub(crate) struct Stripper {
    analyzer: Analyzer,
    memory: Option<u64>,
    cpu: Option<Duration>,
    used: HostCpuTime,
}

impl Stripper {
    /// Creates a stripper for a guest with these limits. Its processor time is added to `used`.
    pub(crate) fn new(analyzer: Analyzer, limits: &Limits, used: HostCpuTime) -> Self {
        Self { analyzer, memory: limits.memory.at().map(|size| size.get()), cpu: limits.cpu.at(), used }
    }

    /// Starts the work on a separate thread, so that the guest's deadline is enforced regardless of the cost of
    /// parsing.
    pub(crate) fn start(&self, request: StripRequest) -> io::Result<oneshot::Receiver<Vec<u8>>> {
        let (send, receive) = oneshot::channel();
        let stripper = self.clone();
        let strip = move || {
            let Self { analyzer, memory, cpu, used } = stripper;
            let stripped = analyzer.strip(&request, Budget::within(memory, cpu));
            used.add(stripped.used.cpu);
            // The receiver is dropped if the guest was stopped.
            let _ = send.send(stripped.answer);
        };
        std::thread::Builder::new().name("codebox-strip".into()).spawn(strip)?;
        Ok(receive)
    }
}
