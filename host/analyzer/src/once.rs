//! One request, served by the process that reads it.

use std::io;

use codebox_analysis::protocol::{End, Report};

use crate::worker;

/// Serves one request and ends the process. A process that dies of it leaves its status to the host.
pub fn serve() -> ! {
    worker::work(io::stdin(), io::stdout(), |answer| {
        Report { end: End::Done, cpu_us: 0, peak_kib: 0, answer: answer.len() }.encode().to_vec()
    })
}
