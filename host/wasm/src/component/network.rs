//! Connections of a component to granted hosts. The guest's [`Net`] serves them as it serves those of other guests.

use std::time::Duration;

use wasmtime::component::Resource;

use crate::component::bind::codebox::guest::network::{self, Failure, FailureKind};
use crate::component::state::State;
use crate::guest::{NetOp, NetReply, NetRequest, not_granted};

/// Connection of a guest, by its handle in [`Net`].
pub struct Connection(u32);

/// Maximum number of bytes that one call sends or receives.
const MAX_TRANSFER: usize = 1 << 20;

impl State {
    /// Performs a network operation. Without granted hosts, every operation is denied.
    async fn perform(&mut self, op: NetOp, handle: u32, number: u32, bytes: &[u8], timeout: Option<u32>) -> NetReply {
        let wait = timeout.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        match &mut self.net {
            Some(net) => net.perform(&NetRequest { op, handle, number, wait, bytes }).await,
            None => not_granted(),
        }
    }

    fn handle(&self, connection: &Resource<Connection>) -> wasmtime::Result<u32> {
        Ok(self.table.get(connection)?.0)
    }
}

impl network::Host for State {}

impl network::HostConnection for State {
    async fn open(
        &mut self,
        host: String,
        port: u16,
        timeout: Option<u32>,
    ) -> wasmtime::Result<Result<Resource<Connection>, Failure>> {
        let reply = self.perform(NetOp::Open, 0, port.into(), host.as_bytes(), timeout).await;
        let opened = match bytes_of(reply) {
            Ok(opened) => opened,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(handle) = opened.first_chunk().map(|handle| u32::from_le_bytes(*handle)) else {
            return Err(wasmtime::Error::msg("a connection has no handle"));
        };
        // The capacity of the table limits the open connections, in addition to the network's own limit.
        match self.table.push(Connection(handle)) {
            Ok(connection) => Ok(Ok(connection)),
            Err(_) => {
                let _ = self.perform(NetOp::Close, handle, 0, &[], None).await;
                Ok(Err(io_failure("too many files and connections are open")))
            }
        }
    }

    async fn start_tls(
        &mut self,
        connection: Resource<Connection>,
        name: String,
        timeout: Option<u32>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        let handle = self.handle(&connection)?;
        let request = serde_json::json!({ "name": name, "alpn": [] }).to_string();
        let reply = self.perform(NetOp::Tls, handle, 0, request.as_bytes(), timeout).await;
        Ok(bytes_of(reply).map(drop))
    }

    async fn send(
        &mut self,
        connection: Resource<Connection>,
        bytes: Vec<u8>,
        timeout: Option<u32>,
    ) -> wasmtime::Result<Result<u32, Failure>> {
        let handle = self.handle(&connection)?;
        let bytes = &bytes[..bytes.len().min(MAX_TRANSFER)];
        let all = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let reply = self.perform(NetOp::Send, handle, 0, bytes, timeout).await;
        // Without a count, all bytes were sent.
        Ok(bytes_of(reply).map(|sent| sent.first_chunk().map_or(all, |count| u32::from_le_bytes(*count))))
    }

    async fn receive(
        &mut self,
        connection: Resource<Connection>,
        max: u32,
        timeout: Option<u32>,
    ) -> wasmtime::Result<Result<Vec<u8>, Failure>> {
        let handle = self.handle(&connection)?;
        let max = max.min(u32::try_from(MAX_TRANSFER).unwrap_or(u32::MAX));
        Ok(bytes_of(self.perform(NetOp::Receive, handle, max, &[], timeout).await))
    }

    async fn shut_down(&mut self, connection: Resource<Connection>) -> wasmtime::Result<Result<(), Failure>> {
        let handle = self.handle(&connection)?;
        Ok(bytes_of(self.perform(NetOp::Shutdown, handle, 0, &[], None).await).map(drop))
    }

    async fn drop(&mut self, connection: Resource<Connection>) -> wasmtime::Result<()> {
        let Connection(handle) = self.table.delete(connection)?;
        let _ = self.perform(NetOp::Close, handle, 0, &[], None).await;
        Ok(())
    }
}

/// Returns the result of an operation, or its failure in the terms of the contract.
fn bytes_of(reply: NetReply) -> Result<Vec<u8>, Failure> {
    match reply {
        NetReply::Empty => Ok(Vec::new()),
        NetReply::Done(bytes) => Ok(bytes),
        NetReply::Timeout => Err(Failure { kind: FailureKind::Timeout, message: "timed out".to_owned() }),
        NetReply::Failed { kind, text, errno: _ } => {
            let kind = match kind {
                "denied" => FailureKind::Denied,
                "name" => FailureKind::UnknownHost,
                "certificate" => FailureKind::Certificate,
                "tls" => FailureKind::Tls,
                _ => FailureKind::Io,
            };
            Err(Failure { kind, message: text })
        }
    }
}

fn io_failure(message: &str) -> Failure {
    Failure { kind: FailureKind::Io, message: message.to_owned() }
}
