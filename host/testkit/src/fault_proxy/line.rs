//! Proxied connection: one thread forwards requests, another forwards responses.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{EngineCall, Fault, Shared, Spot};

/// Maximum length of a request's head in bytes.
const LONGEST_HEAD: u64 = 64 << 10;

/// State of the current response.
#[derive(Debug, Default)]
struct Answering {
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
enum Verdict {
    Pass(u8),
    Changed(u8),
    Cut,
    Stall,
}

impl Answering {
    /// Processes the next byte of the response.
    fn take(&mut self, byte: u8) -> Verdict {
        let here = |spot: Spot| match spot {
            Spot::Answer(at) => self.seen == at,
            Spot::Body(at) => self.body == Some(at),
        };
        let verdict = match self.fault {
            Some(Fault::Cut(spot)) if here(spot) => Verdict::Cut,
            Some(Fault::Stall(spot)) if here(spot) => Verdict::Stall,
            Some(Fault::Corrupt(spot, bits)) if here(spot) => Verdict::Changed(byte ^ bits),
            _ => Verdict::Pass(byte),
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
        verdict
    }
}

/// Forwards a connection until either end closes it.
pub(super) fn carry(client: UnixStream, engine: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let answering = Arc::new(Mutex::new(Answering::default()));
    let line = Line { shared: Arc::clone(shared), answering };
    let (from_engine, to_client) = (engine.try_clone()?, client.try_clone()?);
    let answers = Line { shared: Arc::clone(shared), answering: Arc::clone(&line.answering) };
    thread::spawn(move || answers.answers(from_engine, to_client));
    thread::spawn(move || line.requests(client, engine));
    Ok(())
}

struct Line {
    shared: Arc<Shared>,
    answering: Arc<Mutex<Answering>>,
}

impl Line {
    /// Forwards requests until the client closes the connection.
    fn requests(&self, client: UnixStream, mut engine: UnixStream) {
        let mut requests = BufReader::new(client);
        while let Ok(Some(Head { bytes, call, length, upgrades })) = head(&mut requests) {
            let fault = self.begin(call);
            if fault == Some(Fault::CutBefore) {
                self.shared.state().struck += 1;
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

    fn begin(&self, call: EngineCall) -> Option<Fault> {
        let fault = {
            let mut state = self.shared.state();
            state.calls.push(call);
            state.faults.iter().find(|(one, _)| *one == call).map(|(_, fault)| *fault)
        };
        *self.answering.lock().unwrap_or_else(PoisonError::into_inner) = Answering { fault, ..Answering::default() };
        fault
    }

    /// Forwards responses and applies the faults.
    fn answers(&self, mut engine: UnixStream, mut client: UnixStream) {
        let mut buffer = vec![0; 64 << 10];
        let mut stalled = false;
        while let Ok(count @ 1..) = engine.read(&mut buffer) {
            if stalled {
                continue;
            }
            let (bytes, end) = self.pass(&buffer[..count]);
            if client.write_all(&bytes).is_err() || end == Some(Verdict::Cut) {
                let _ = engine.shutdown(Shutdown::Both);
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
            stalled = end == Some(Verdict::Stall);
        }
        // After a stall, the end of the engine's stream must not reach the client.
        if !stalled {
            let _ = client.shutdown(Shutdown::Write);
        }
    }

    fn pass(&self, bytes: &[u8]) -> (Vec<u8>, Option<Verdict>) {
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let verdict = answering.take(*byte);
            if !matches!(verdict, Verdict::Pass(_)) {
                self.shared.state().struck += 1;
            }
            match verdict {
                Verdict::Pass(byte) | Verdict::Changed(byte) => passed.push(byte),
                Verdict::Cut | Verdict::Stall => return (passed, Some(verdict)),
            }
        }
        (passed, None)
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
    let mut lines = requests.take(LONGEST_HEAD);
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
