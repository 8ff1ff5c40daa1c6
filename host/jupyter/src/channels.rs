//! The sockets of a kernel.

use std::net::IpAddr;

use jupyter_protocol::{ConnectionInfo, Header, JupyterMessage, JupyterMessageContent, Transport, UnknownMessage};
use jupyter_zmq_client::{
    Connection, KernelHeartbeatConnection, KernelIoPubConnection, RawMessage, RuntimeError,
    create_kernel_control_connection, create_kernel_heartbeat_connection, create_kernel_iopub_connection,
    create_kernel_shell_connection, create_kernel_stdin_connection,
};
use serde_json::{Map, Value, json};
use zeromq::SocketRecv as _;

/// Error of a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JupyterError {
    /// The connection file is not one, or describes a connection that is refused.
    #[error("cannot use the connection file: {0}")]
    Connection(String),
    /// A socket failed.
    #[error("cannot {action}: {reason}")]
    Socket {
        /// Attempted action.
        action: &'static str,
        /// Reason of the failure.
        reason: String,
    },
    /// The session failed.
    #[error(transparent)]
    Session(#[from] codebox_core::RunnerError),
}

impl JupyterError {
    fn socket(action: &'static str) -> impl FnOnce(RuntimeError) -> Self {
        move |error| Self::Socket { action, reason: error.to_string() }
    }
}

/// Addresses and key of a connection, which the client has chosen.
#[derive(Debug, Clone)]
pub struct ConnectionFile(ConnectionInfo);

impl ConnectionFile {
    /// Parses the content of a connection file.
    ///
    /// # Errors
    /// Returns an error if the text is malformed, if messages would not be signed, or if the address is not one of this machine alone.
    pub fn parse(text: &str) -> Result<Self, JupyterError> {
        let info: ConnectionInfo =
            serde_json::from_str(text).map_err(|error| JupyterError::Connection(error.to_string()))?;
        let refused = |why: &str| Err(JupyterError::Connection(why.to_owned()));
        if info.key.is_empty() {
            return refused("it has no key, so that any program could send cells");
        }
        if info.signature_scheme != "hmac-sha256" {
            return refused("its signature scheme is not hmac-sha256");
        }
        let is_local = || info.ip == "localhost" || info.ip.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        if info.transport == Transport::TCP && !is_local() {
            return refused("its address is not a loopback address; start the client with the ip 127.0.0.1");
        }
        Ok(Self(info))
    }
}

/// Sending and receiving parts of a socket for requests.
pub(crate) type Replies = Connection<zeromq::RouterSendHalf>;
pub(crate) type Requests = Connection<zeromq::RouterRecvHalf>;

/// The open sockets.
pub(crate) struct Channels {
    pub shell: (Replies, Requests),
    pub control: (Replies, Requests),
    pub stdin: (Replies, Requests),
    pub iopub: KernelIoPubConnection,
    pub heartbeat: KernelHeartbeatConnection,
}

impl Channels {
    /// Opens the sockets of a connection.
    pub(crate) async fn open(ConnectionFile(info): &ConnectionFile, session: &str) -> Result<Self, JupyterError> {
        let failed = || JupyterError::socket("open the sockets of the connection file");
        Ok(Self {
            shell: create_kernel_shell_connection(info, session).await.map_err(failed())?.split(),
            control: create_kernel_control_connection(info, session).await.map_err(failed())?.split(),
            stdin: create_kernel_stdin_connection(info, session).await.map_err(failed())?.split(),
            iopub: create_kernel_iopub_connection(info, session).await.map_err(failed())?,
            heartbeat: create_kernel_heartbeat_connection(info).await.map_err(failed())?,
        })
    }
}

/// Receives a message, without those that are malformed or not signed; `None` if the socket has failed.
pub(crate) async fn receive(from: &mut Requests) -> Option<JupyterMessage> {
    loop {
        let parts = from.socket.recv().await.ok()?;
        if let Some(message) = RawMessage::from_multipart(parts, &from.mac).ok().and_then(parsed) {
            return Some(message);
        }
    }
}

/// Parses a message, whose signature has been checked. Parts that clients may leave out have their defaults, and a content that is
/// malformed is that of an unknown request.
fn parsed(raw: RawMessage) -> Option<JupyterMessage> {
    let [header, parent, metadata, content, ..] = &raw.jparts[..] else { return None };
    let header: Header = serde_json::from_slice(header).ok()?;
    let kind = header.msg_type.clone();
    let mut given: Map<String, Value> = serde_json::from_slice(content).unwrap_or_default();
    given.retain(|_, value| !value.is_null());
    let defaults = match kind.as_str() {
        "execute_request" => json!({"silent": false, "store_history": true, "user_expressions": {}}),
        "history_request" => {
            json!({"hist_access_type": "tail", "output": false, "raw": true, "n": 0, "start": 0, "stop": 0, "pattern": "*", "unique": false})
        }
        "shutdown_request" => json!({"restart": false}),
        _ => Value::Null,
    };
    for (name, value) in defaults.as_object().into_iter().flatten() {
        given.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let given = Value::Object(given);
    let content = JupyterMessageContent::from_type_and_content(&kind, given.clone());
    Some(JupyterMessage {
        zmq_identities: raw.zmq_identities,
        header,
        parent_header: serde_json::from_slice(parent).ok(),
        metadata: serde_json::from_slice(metadata).unwrap_or_default(),
        content: content.unwrap_or_else(|_| UnknownMessage { msg_type: kind, content: given }.into()),
        buffers: Vec::new(),
        channel: None,
    })
}

/// Answers the checks that the kernel lives.
pub(crate) async fn beat(mut heartbeat: KernelHeartbeatConnection) {
    while heartbeat.single_heartbeat().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(ip: &str, key: &str) -> Result<ConnectionFile, JupyterError> {
        let text = serde_json::json!({
            "ip": ip, "transport": "tcp", "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
            "key": key, "signature_scheme": "hmac-sha256", "kernel_name": "codebox-python",
        });
        ConnectionFile::parse(&text.to_string())
    }

    #[test]
    fn connections_are_signed_and_local() {
        for ip in ["127.0.0.1", "localhost", "::1", "127.8.0.1"] {
            parsed(ip, "secret").expect(ip);
        }
        for (ip, key) in [("127.0.0.1", ""), ("0.0.0.0", "secret"), ("192.0.2.1", "secret"), ("example.com", "secret")]
        {
            parsed(ip, key).expect_err(ip);
        }
    }
}
