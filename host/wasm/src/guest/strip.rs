//! Takes the types out of a guest's TypeScript while the guest waits.

use std::io;
use std::time::Duration;

use codebox_analysis::{Analyzer, Budget, StripRequest};
use codebox_core::Limits;
use tokio::sync::oneshot;

use crate::interrupt::HostCpu;

/// Takes the types out of the TypeScript that one guest loads, within what the guest may take.
#[derive(Debug, Clone)]
pub(crate) struct Stripper {
    analyzer: Analyzer,
    memory: Option<u64>,
    cpu: Option<Duration>,
    used: HostCpu,
}

impl Stripper {
    /// A stripper for a guest with these limits. The processor time that it takes is added to `used`.
    pub(crate) fn new(analyzer: Analyzer, limits: &Limits, used: HostCpu) -> Self {
        Self { analyzer, memory: limits.memory.at().map(|size| size.get()), cpu: limits.cpu.at(), used }
    }

    /// Begins the work on a thread of its own, so that the guest's deadline holds whatever the text costs to parse.
    pub(crate) fn start(&self, request: StripRequest) -> io::Result<oneshot::Receiver<Vec<u8>>> {
        let (send, receive) = oneshot::channel();
        let stripper = self.clone();
        let strip = move || {
            let Self { analyzer, memory, cpu, used } = stripper;
            let stripped = analyzer.strip(&request, Budget::within(memory, cpu));
            used.add(stripped.used.cpu);
            // A guest that was stopped waits no longer.
            let _ = send.send(stripped.answer);
        };
        std::thread::Builder::new().name("codebox-strip".into()).spawn(strip)?;
        Ok(receive)
    }
}
