//! Progress reports from the executor of a backend to the caller, whose receiver is only borrowed.

use codebox_core::Progress;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Progress receiver that passes every report on.
pub(super) struct Relay(UnboundedSender<Report>);

/// One call of [`Progress`].
pub(super) enum Report {
    Started(String, Option<u64>),
    Advanced(u64),
    Finished,
    Note(String),
    Detail(String),
}

impl Relay {
    pub(super) fn new() -> (Self, UnboundedReceiver<Report>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    fn send(&self, report: Report) {
        // Without a receiver the caller has given the work up.
        let _ = self.0.send(report);
    }
}

impl Progress for Relay {
    fn started(&self, what: &str, total_bytes: Option<u64>) {
        self.send(Report::Started(what.to_owned(), total_bytes));
    }

    fn advanced(&self, bytes: u64) {
        self.send(Report::Advanced(bytes));
    }

    fn finished(&self) {
        self.send(Report::Finished);
    }

    fn note(&self, line: &str) {
        self.send(Report::Note(line.to_owned()));
    }

    fn detail(&self, line: &str) {
        self.send(Report::Detail(line.to_owned()));
    }
}

/// Waits for `work` and meanwhile passes its reports to `progress`.
pub(super) async fn forward<T>(
    mut reports: UnboundedReceiver<Report>,
    progress: &dyn Progress,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            Some(report) = reports.recv() => apply(report, progress),
            done = &mut work => {
                while let Ok(report) = reports.try_recv() {
                    apply(report, progress);
                }
                return done;
            }
        }
    }
}

fn apply(report: Report, progress: &dyn Progress) {
    match report {
        Report::Started(what, total) => progress.started(&what, total),
        Report::Advanced(bytes) => progress.advanced(bytes),
        Report::Finished => progress.finished(),
        Report::Note(line) => progress.note(&line),
        Report::Detail(line) => progress.detail(&line),
    }
}
