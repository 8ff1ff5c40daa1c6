//! Proxied connection: one thread forwards requests, another forwards responses.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{BytePosition, EngineCall, Fault, Shared};

/// Maximum length of a request's head in bytes.
const MAX_HEAD_LEN: u64 = 64 << 10;

/// State of the current response.
#[derive(Debug, Default)]
struct ResponseState {
    fault: Option<Fault>,
    /// Number of response bytes received.
    seen: usize,
    /// Number of bytes matched of the `\r\n\r\n` that ends the head.
    ending: usize,
    /// Number of bytes received after the head, once the head is complete.
    body: Option<usize>,
}

/// Action for a response byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteAction {
    Pass(u8),
    Changed(u8),
    Cut,
    Stall,
}

impl ResponseState {
    /// Processes the next byte of the response.
    fn take(&mut self, byte: u8) -> ByteAction {
        let here = |position: BytePosition| match position {
            BytePosition::Response(at) => self.seen == at,
            BytePosition::Body(at) => self.body == Some(at),
        };
        let action = match self.fault {
            Some(Fault::Cut(position)) if here(position) => ByteAction::Cut,
            Some(Fault::Stall(position)) if here(position) => ByteAction::Stall,
            Some(Fault::Corrupt(position, bits)) if here(position) => ByteAction::Changed(byte ^ bits),
            _ => ByteAction::Pass(byte),
        };
        self.seen += 1;
        match &mut self.body {
            Some(body) => *body += 1,
            None => {
                self.ending = match (self.ending, byte) {
                    (0 | 2, b'\r') | (1 | 3, b'\n') => self.ending + 1,
                    (_, b'\r') => 1,
                    _ => 0,
                };
                if self.ending == 4 {
                    self.body = Some(0);
                }
            }
        }
        action
    }
}

/// Forwards a connection until either end closes it.
pub(super) fn forward_connection(client: UnixStream, engine: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let response = Arc::new(Mutex::new(ResponseState::default()));
    let line = Connection { shared: Arc::clone(shared), response };
    let (from_engine, to_client) = (engine.try_clone()?, client.try_clone()?);
    let responses = Connection { shared: Arc::clone(shared), response: Arc::clone(&line.response) };
    thread::spawn(move || responses.responses(from_engine, to_client));
    thread::spawn(move || line.requests(client, engine));
    Ok(())
}

struct Connection {
    shared: Arc<Shared>,
    response: Arc<Mutex<ResponseState>>,
}

impl Connection {
    /// Forwards requests until the client closes the connection.
    fn requests(&self, client: UnixStream, mut engine: UnixStream) {
        let mut requests = BufReader::new(client);
        while let Ok(Some(Head { bytes, call, length, upgrades })) = head(&mut requests) {
            let fault = self.start_response(call);
            if fault == Some(Fault::CutRequest) {
                self.shared.state().injected_count += 1;
                break;
            }
            let mut body = requests.by_ref().take(if upgrades { u64::MAX } else { length });
            if engine.write_all(&bytes).is_err() || forward(&mut body, &mut engine).is_err() {
                break;
            }
            if upgrades {
                // The client sends no more data but may still read.
                let _ = engine.shutdown(Shutdown::Write);
                return;
            }
        }
        let _ = engine.shutdown(Shutdown::Both);
        let _ = requests.get_ref().shutdown(Shutdown::Both);
    }

    fn start_response(&self, call: EngineCall) -> Option<Fault> {
        let fault = {
            let mut state = self.shared.state();
            state.calls.push(call);
            state.faults.iter().find(|(one, _)| *one == call).map(|(_, fault)| *fault)
        };
        *self.response.lock().unwrap_or_else(PoisonError::into_inner) =
            ResponseState { fault, ..ResponseState::default() };
        fault
    }

    /// Forwards responses and applies the faults.
    fn responses(&self, mut engine: UnixStream, mut client: UnixStream) {
        let mut buffer = vec![0; 64 << 10];
        let mut stalled = false;
        while let Ok(count @ 1..) = engine.read(&mut buffer) {
            if stalled {
                continue;
            }
            let (bytes, end) = self.apply_faults(&buffer[..count]);
            if client.write_all(&bytes).is_err() || end == Some(ByteAction::Cut) {
                let _ = engine.shutdown(Shutdown::Both);
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
            stalled = end == Some(ByteAction::Stall);
        }
        // After a stall, the end of the engine's stream must not reach the client.
        if !stalled {
            let _ = client.shutdown(Shutdown::Write);
        }
    }

    fn apply_faults(&self, bytes: &[u8]) -> (Vec<u8>, Option<ByteAction>) {
        let mut response = self.response.lock().unwrap_or_else(PoisonError::into_inner);
        let mut forwarded = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let action = response.take(*byte);
            if !matches!(action, ByteAction::Pass(_)) {
                self.shared.state().injected_count += 1;
            }
            match action {
                ByteAction::Pass(byte) | ByteAction::Changed(byte) => forwarded.push(byte),
                ByteAction::Cut | ByteAction::Stall => return (forwarded, Some(action)),
            }
        }
        (forwarded, None)
    }
}

struct Head {
    bytes: Vec<u8>,
    call: EngineCall,
    length: u64,
    upgrades: bool,
}

/// Reads the head of the next request; `None` at the end of the connection.
fn head(requests: &mut BufReader<UnixStream>) -> io::Result<Option<Head>> {
    let mut bytes = Vec::new();
    let mut lines = requests.take(MAX_HEAD_LEN);
    while !bytes.ends_with(b"\r\n\r\n") {
        if lines.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let field = |name: &str| {
        let mut fields = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    if field("transfer-encoding").is_some() {
        return Err(io::Error::other("a body without a stated length"));
    }
    let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let call = EngineCall::of(text.lines().next().unwrap_or_default());
    Ok(Some(Head { call, length, upgrades: field("upgrade").is_some(), bytes }))
}

/// Forwards data as it arrives.
fn forward(from: &mut impl io::Read, to: &mut UnixStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}
