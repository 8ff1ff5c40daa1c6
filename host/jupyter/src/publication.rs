//! Messages to all clients.
//!
//! The socket keeps messages for clients that do not read. Their size is limited here: each holds a part of the permitted size until it is
//! sent to all clients.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use bytes::Bytes;
use jupyter_protocol::{JupyterMessage, Stdio, StreamContent};
use jupyter_zmq_client::KernelIoPubConnection;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use zeromq::{SocketSend as _, ZmqMessage};

/// Number of messages that wait to be published. A cell that writes more waits.
const QUEUE_CAPACITY: usize = 256;

/// Size in bytes up to which pieces of one stream become one message.
const MAX_STREAM_TEXT: usize = 64 << 10;

/// Time for which pieces of a stream are collected.
const MERGE_TIME: Duration = Duration::from_millis(25);

/// Maximum size in bytes of the messages that wait for clients.
const MAX_UNREAD: usize = 64 << 20;

/// Size in bytes that the other parts of a message are counted with.
const OTHER_PARTS: usize = 2 << 10;

/// Time for which outputs wait for a client that does not read.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages by which a client knows the state of a cell. They are published in any case.
const REQUIRED: [&str; 2] = ["status", "error"];

/// Message between the identities and the signature.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// Message to all clients.
pub(crate) enum Publication {
    Message(Box<JupyterMessage>),
    /// Text that a cell has written, and the request of the cell.
    Stream(StreamContent, Arc<JupyterMessage>),
}

/// Sender to all clients.
pub(crate) type Publisher = Sender<Publication>;

/// Returns the queue of messages to all clients.
pub(crate) fn publications() -> (Publisher, Receiver<Publication>) {
    channel(QUEUE_CAPACITY)
}

/// Sends messages to all clients until the last sender is dropped. Pieces of one stream that arrive in a short time become one message.
pub(crate) async fn publish(iopub: KernelIoPubConnection, mut from: Receiver<Publication>) {
    let mut socket = Socket::new(iopub, MAX_UNREAD, UNREAD_TIMEOUT);
    let mut next = VecDeque::new();
    loop {
        let Some(first) = (match next.pop_front() {
            Some(first) => Some(first),
            None => from.recv().await,
        }) else {
            return;
        };
        let message = match first {
            Publication::Message(message) => *message,
            Publication::Stream(mut stream, parent) => {
                let end = Instant::now() + MERGE_TIME;
                while stream.text.len() < MAX_STREAM_TEXT {
                    match timeout_at(end, from.recv()).await {
                        Ok(Some(Publication::Stream(more, its_parent)))
                            if continues(&stream, &parent, &more, &its_parent) =>
                        {
                            stream.text.push_str(&more.text);
                        }
                        Ok(Some(other)) => {
                            next.push_back(other);
                            break;
                        }
                        Ok(None) | Err(_) => break,
                    }
                }
                stream.as_child_of(&parent)
            }
        };
        socket.send(message).await;
    }
}

fn continues(
    stream: &StreamContent,
    parent: &JupyterMessage,
    more: &StreamContent,
    its_parent: &JupyterMessage,
) -> bool {
    std::mem::discriminant(&stream.name) == std::mem::discriminant(&more.name)
        && parent.header.msg_id == its_parent.header.msg_id
}

/// Socket with a limit on the size of the messages that it keeps.
struct Socket {
    iopub: KernelIoPubConnection,
    /// Size in bytes that further messages may have.
    space: Arc<Semaphore>,
    max_unread: usize,
    unread_timeout: Duration,
    /// Number of outputs that were left out since the last one that was sent.
    left_out: u64,
}

impl Socket {
    fn new(iopub: KernelIoPubConnection, max_unread: usize, unread_timeout: Duration) -> Self {
        Self { iopub, space: Arc::new(Semaphore::new(max_unread)), max_unread, unread_timeout, left_out: 0 }
    }

    /// Sends a message to all clients. An output waits until there is space for it, and is left out if there is none for some time. The
    /// others after it are left out at once, until there is space again.
    async fn send(&mut self, message: JupyterMessage) {
        let Ok(content) = serde_json::to_vec(&message.content) else { return };
        if REQUIRED.contains(&message.message_type()) {
            return self.send_content(&message, Bytes::from(content)).await;
        }
        let Some(permit) = self.space_for(content.len() + OTHER_PARTS).await else {
            self.left_out += 1;
            return;
        };
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let text = format!("codebox: {left_out} outputs were left out: a client of the kernel does not read\n");
            let note = JupyterMessage::new(StreamContent { name: Stdio::Stderr, text }, None);
            let note = JupyterMessage { parent_header: message.parent_header.clone(), ..note };
            if let Ok(content) = serde_json::to_vec(&note.content) {
                self.send_content(&note, Bytes::from(content)).await;
            }
        }
        self.send_content(&message, Bytes::from_owner(Counted { content, _permit: permit })).await;
    }

    async fn space_for(&self, size: usize) -> Option<OwnedSemaphorePermit> {
        // A message that is larger than the limit waits for all of it.
        let size = u32::try_from(size.min(self.max_unread)).ok()?;
        let space = Arc::clone(&self.space);
        if self.left_out > 0 {
            return space.try_acquire_many_owned(size).ok();
        }
        timeout(self.unread_timeout, space.acquire_many_owned(size)).await.ok()?.ok()
    }

    async fn send_content(&mut self, message: &JupyterMessage, content: Bytes) {
        let mut header = message.header.clone();
        header.session.clone_from(&self.iopub.session_id);
        let json = |text: serde_json::Result<Vec<u8>>| Bytes::from(text.unwrap_or_else(|_| b"{}".to_vec()));
        let parent = message.parent_header.as_ref().map_or_else(|| Ok(b"{}".to_vec()), serde_json::to_vec);
        let parts =
            [json(serde_json::to_vec(&header)), json(parent), json(serde_json::to_vec(&message.metadata)), content];
        let signature = self.iopub.mac.as_ref().map_or_else(String::new, |key| {
            let mut signing = hmac::Context::with_key(key);
            parts.iter().for_each(|part| signing.update(part));
            signing.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
        });
        // All clients receive the message, so it has no address.
        let frames = [Bytes::from_static(DELIMITER), Bytes::from(signature)].into_iter().chain(parts);
        if let Ok(message) = ZmqMessage::try_from(frames.collect::<Vec<_>>()) {
            // A client that is gone receives nothing.
            let _ = self.iopub.socket.send(message).await;
        }
    }
}

/// Content of a message. It takes its space until the socket has sent it to all clients.
struct Counted {
    content: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use jupyter_protocol::{ConnectionInfo, ExecuteRequest, JupyterMessageContent, Status};
    use jupyter_zmq_client::{ClientIoPubConnection, create_client_iopub_connection, create_kernel_iopub_connection};

    use super::*;

    const MAX: usize = 8 << 20;

    /// Returns a socket, and a client of it that reads nothing by itself.
    async fn connected(dir: &std::path::Path) -> (Socket, ClientIoPubConnection) {
        let info: ConnectionInfo = serde_json::from_value(serde_json::json!({
            "ip": dir.join("socket"), "transport": "ipc", "shell_port": 1, "iopub_port": 2, "stdin_port": 3,
            "control_port": 4, "hb_port": 5, "key": "secret", "signature_scheme": "hmac-sha256",
        }))
        .expect("a connection");
        let iopub = create_kernel_iopub_connection(&info, "kernel").await.expect("a socket");
        let mut client = create_client_iopub_connection(&info, "", "client").await.expect("a client");
        let mut socket = Socket::new(iopub, MAX, Duration::from_millis(200));
        // The subscription arrives at some time.
        loop {
            socket.send(JupyterMessage::new(Status::idle(), None)).await;
            if timeout(Duration::from_millis(50), client.read()).await.is_ok() {
                return (socket, client);
            }
        }
    }

    async fn send_texts(socket: &mut Socket, count: usize) {
        let parent = JupyterMessage::new(ExecuteRequest::new(String::new()), None);
        for _ in 0..count {
            let stream = StreamContent { name: Stdio::Stdout, text: "x".repeat(1 << 20) };
            socket.send(stream.as_child_of(&parent)).await;
        }
    }

    /// Returns the texts until the next error.
    async fn texts(client: &mut ClientIoPubConnection) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            match client.read().await.expect("a message").content {
                JupyterMessageContent::StreamContent(stream) => texts.push(stream.text),
                JupyterMessageContent::ErrorOutput(_) => return texts,
                _ => {}
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn clients_that_do_not_read_take_limited_space() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut socket, mut client) = connected(dir.path()).await;
        let error = || JupyterMessage::new(crate::kernel::error_output("E", "x", Vec::new()), None);
        send_texts(&mut socket, 100).await;
        assert!(socket.left_out > 0 && socket.space.available_permits() < 1 << 20, "{}", socket.left_out);
        // Required messages are not left out.
        socket.send(error()).await;
        let count = texts(&mut client).await.len();
        // The client and the system have a few more.
        assert!((8..50).contains(&count), "{count}");

        // It reads again, and gets everything and a note.
        let reading = tokio::spawn(async move { (texts(&mut client).await, client) });
        send_texts(&mut socket, 100).await;
        socket.send(error()).await;
        let (received, _client) = reading.await.expect("the texts");
        assert!(received[0].contains("outputs were left out"), "{}", received[0]);
        assert_eq!(received.len(), 101);
        assert_eq!(socket.left_out, 0);
    }
}
