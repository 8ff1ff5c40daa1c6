//! Progress of programs for the client.

use std::io;
use std::time::{Duration, Instant};

use codebox_core::{OutputSink, Shortening};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::mpsc;

/// Minimum time between two notifications.
const INTERVAL: Duration = Duration::from_millis(200);

/// Number of pieces of output that wait. Further ones are not shown.
const QUEUED: usize = 16;

/// Shortening of a line of output.
const LINE: Shortening = Shortening { bytes: 200, lines: 1 };

/// Receiver of output that tells the client the latest line of it.
pub(crate) struct ProgressSink(mpsc::Sender<String>);

impl OutputSink for ProgressSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(line) = text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            // The output itself is in the result.
            let _ = self.0.try_send(LINE.apply(line).into_owned());
        }
        Ok(())
    }
}

/// Starts the notifications of a call. They end with the sinks.
pub(crate) fn progress(peer: Peer<RoleServer>, token: ProgressToken) -> (ProgressSink, ProgressSink) {
    let (sender, mut lines) = mpsc::channel::<String>(QUEUED);
    tokio::spawn(async move {
        let mut last: Option<Instant> = None;
        let mut count = 0.0;
        while let Some(line) = lines.recv().await {
            if last.is_some_and(|last| last.elapsed() < INTERVAL) {
                continue;
            }
            last = Some(Instant::now());
            count += 1.0;
            let text: String = line.chars().filter(|c| !c.is_control()).collect();
            let notification = ProgressNotificationParam::new(token.clone(), count).with_message(text);
            if peer.notify_progress(notification).await.is_err() {
                break;
            }
        }
    });
    (ProgressSink(sender.clone()), ProgressSink(sender))
}
