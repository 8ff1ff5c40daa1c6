//! Progress of programs for the client.

use std::io;
use std::time::Duration;

use codebox_core::{ExecIo, OutputSink, shorten_line};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Minimum time between two notifications, except for the last one.
const INTERVAL: Duration = Duration::from_millis(200);

/// Maximum time that the result of a call waits for the last notification.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of a line of output in bytes.
const MAX_LINE: usize = 200;

/// Notifications about a call, with the latest line of output.
pub(crate) struct Progress {
    lines: watch::Sender<String>,
    task: JoinHandle<()>,
}

/// Receiver of output. The output itself is in the result.
#[derive(Clone)]
pub(crate) struct ProgressSink(watch::Sender<String>);

impl OutputSink for ProgressSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(line) = text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            let line: String = line.chars().filter(|c| !c.is_control()).collect();
            self.0.send_replace(shorten_line(&line, MAX_LINE).into_owned());
        }
        Ok(())
    }
}

impl ProgressSink {
    /// Receives the output of a program.
    pub(crate) fn watch(&self, io: &mut ExecIo) {
        io.stdout = Some(Box::new(self.clone()));
        io.stderr = Some(Box::new(self.clone()));
    }
}

impl Progress {
    /// Starts the notifications.
    pub(crate) fn start(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (lines, mut latest) = watch::channel(String::new());
        let task = tokio::spawn(async move {
            let mut next = Instant::now();
            let mut count = 0.0;
            while latest.changed().await.is_ok() {
                // Later lines take the place of this one until the next notification is due, or there are no more.
                while let Ok(Ok(())) = timeout_at(next, latest.changed()).await {}
                let line = latest.borrow_and_update().clone();
                count += 1.0;
                let notification = ProgressNotificationParam::new(token.clone(), count).with_message(line);
                if peer.notify_progress(notification).await.is_err() {
                    break;
                }
                next = Instant::now() + INTERVAL;
            }
        });
        Self { lines, task }
    }

    pub(crate) fn sink(&self) -> ProgressSink {
        ProgressSink(self.lines.clone())
    }

    /// Sends the last line. The sinks are gone.
    pub(crate) async fn finish(self) {
        drop(self.lines);
        let _ = timeout(END_TIMEOUT, self.task).await;
    }
}
