use std::mem;

use httparse::Status;

use super::{HostSecrets, SecretError, canonical};

/// Maximum size of the head of a request in bytes.
const MAX_HEAD: usize = 64 << 10;

/// Maximum size of the head of a request with values, in bytes.
const MAX_REWRITTEN: usize = 1 << 20;

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 256;

/// Requests of a guest over one HTTP/1 connection: replaces placeholders in the values of headers.
///
/// Bodies and targets are passed on as they are. Each head is written anew, in one spelling, so that the server understands it as it was
/// understood here: it could otherwise take the head of a later request, with a value, for the body of an earlier one. Data that are not HTTP/1
/// requests are passed on as they are, and so are all later ones of the same connection, because the beginning of a head cannot be found any more.
/// A request whose body servers may ignore or read loosely is the last one of its connection.
#[derive(Debug)]
pub struct RequestRewriter {
    secrets: HostSecrets,
    state: State,
    /// The incomplete head.
    pending: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Head,
    /// This number of bytes of a body, then the next head.
    Body(u64),
    /// Data of any form.
    Opaque,
    Refused(SecretError),
}

/// The form of a request after its head.
enum Rest {
    Length(u64),
    /// Another protocol.
    Opaque,
    /// A body that the server may take for a request.
    Last,
}

impl RequestRewriter {
    /// Creates a rewriter for a new connection to the host of these secrets.
    #[must_use]
    pub fn new(secrets: HostSecrets) -> Self {
        Self { secrets, state: State::Head, pending: Vec::new() }
    }

    /// Takes the next bytes of the guest, and returns the next bytes for the server. A head is returned once it is complete.
    ///
    /// # Errors
    /// Returns an error if a secret was to be sent in a way that is not allowed. All later calls fail as well.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, SecretError> {
        let mut input = mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(input.len());
        let mut rest = input.as_slice();
        while !rest.is_empty() {
            match self.step(rest, &mut out) {
                Ok(Some(consumed)) => rest = &rest[consumed..],
                Ok(None) => {
                    self.pending = rest.to_vec();
                    break;
                }
                Err(error) => {
                    self.state = State::Refused(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(out)
    }

    /// Returns the bytes of the guest that are no complete head, at the end of its data.
    pub fn finish(&mut self) -> Vec<u8> {
        self.state = State::Opaque;
        mem::take(&mut self.pending)
    }

    /// Passes on a part of the input and returns its length; `None` if more input is required.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, SecretError> {
        match &mut self.state {
            State::Head => self.head(input, out),
            State::Body(left) => {
                let count = pass(input, left, out);
                if *left == 0 {
                    self.state = State::Head;
                }
                Ok(Some(count))
            }
            State::Opaque => {
                out.extend_from_slice(input);
                Ok(Some(input.len()))
            }
            State::Refused(error) => Err(error.clone()),
        }
    }

    fn head(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, SecretError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(input) {
            Ok(Status::Complete(len)) => {
                let rest = match rest_of(&request) {
                    Ok(rest) => rest,
                    Err(why) => return self.give_up(&input[..len], why),
                };
                out.extend(self.rewritten(&request, &rest)?);
                self.state = match rest {
                    Rest::Length(0) => State::Head,
                    Rest::Length(len) => State::Body(len),
                    Rest::Opaque | Rest::Last => State::Opaque,
                };
                Ok(Some(len))
            }
            Ok(Status::Partial) if input.len() <= MAX_HEAD => Ok(None),
            Ok(Status::Partial) => self.give_up(input, "the head of the request is too long"),
            Err(_) => self.give_up(input, "the head of the request is malformed"),
        }
    }

    /// Passes on all further data as they are, unless they have a placeholder.
    fn give_up(&mut self, input: &[u8], why: &'static str) -> Result<Option<usize>, SecretError> {
        if let Some(name) = self.secrets.find(input) {
            return Err(SecretError::Malformed(name, why));
        }
        self.state = State::Opaque;
        Ok(Some(0))
    }

    /// Returns the head with values in place of placeholders.
    fn rewritten(&self, request: &httparse::Request<'_, '_>, rest: &Rest) -> Result<Vec<u8>, SecretError> {
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let mut head = format!("{method} {target} HTTP/1.{}\r\n", request.version.unwrap_or(1)).into_bytes();
        let mut name = None;
        for header in request.headers.iter() {
            if matches!(rest, Rest::Last) && header.name.eq_ignore_ascii_case("connection") {
                continue;
            }
            let replaced = self.secrets.replace(header.value)?;
            head.extend(header.name.as_bytes());
            head.extend(b": ");
            match replaced {
                None => head.extend(header.value),
                Some((value, of)) => {
                    head.extend(value);
                    name = Some(of);
                }
            }
            head.extend(b"\r\n");
        }
        if matches!(rest, Rest::Last) {
            head.extend(b"Connection: close\r\n");
        }
        head.extend(b"\r\n");
        let Some(name) = name else { return Ok(head) };
        if head.len() > MAX_REWRITTEN {
            return Err(SecretError::Malformed(name, "the head of the request is too long"));
        }
        if method == "CONNECT" {
            return Err(SecretError::Malformed(name, "the request is for a tunnel"));
        }
        // A server that serves several hosts selects one by these.
        let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        let is_own_host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => std::str::from_utf8(host.value).is_ok_and(|host| self.is_own_host(host)),
            _ => false,
        };
        let is_own_target = target.starts_with('/') || target == "*";
        match is_own_host && is_own_target {
            true => Ok(head),
            false => Err(SecretError::OtherHost(name)),
        }
    }

    /// Returns true if the value of the header `Host` names the host of the connection.
    fn is_own_host(&self, value: &str) -> bool {
        let host = match value.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
            _ => value,
        };
        canonical(host) == self.secrets.host
    }
}

/// Passes on at most `left` bytes, and returns their number.
fn pass(input: &[u8], left: &mut u64, out: &mut Vec<u8>) -> usize {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    out.extend_from_slice(&input[..count]);
    *left -= count as u64;
    count
}

/// Returns the form of the request after its head, if it has a single meaning.
fn rest_of(request: &httparse::Request<'_, '_>) -> Result<Rest, &'static str> {
    let values = |name: &'static str| {
        request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    };
    if request.method == Some("CONNECT") || values("upgrade").next().is_some() {
        return Ok(Rest::Opaque);
    }
    let (mut lengths, mut encodings) = (values("content-length"), values("transfer-encoding"));
    let length: u64 = match (lengths.next(), encodings.next()) {
        (None, None) => 0,
        (Some(length), None) if lengths.next().is_none() && length.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
            length.ok_or("its Content-Length is malformed")?
        }
        // Some servers read the framing of chunks loosely.
        (None, Some(encoding))
            if encodings.next().is_none()
                && encoding.eq_ignore_ascii_case(b"chunked")
                && request.version == Some(1) =>
        {
            return Ok(Rest::Last);
        }
        _ => return Err("the length of its body is ambiguous"),
    };
    // Servers may leave other bodies unread, and go on with them as the next request.
    let is_read = matches!(request.method, Some("POST" | "PUT" | "PATCH")) && values("expect").next().is_none();
    Ok(if length == 0 || is_read { Rest::Length(length) } else { Rest::Last })
}
