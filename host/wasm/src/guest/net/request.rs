use std::time::Duration;

/// The first byte of a network request. Other requests begin with another byte.
pub(crate) const REQUEST_TAG: u8 = 1;

/// Bytes of the head: the mark, the operation, a handle and two numbers.
const HEADER_SIZE: usize = 14;

/// Flag beside a handle in a poll: wait until more bytes can be sent.
pub(super) const WRITABLE: u32 = 1 << 31;

/// Value for no time limit.
const NO_TIMEOUT: u32 = u32::MAX;

/// The operation of a network request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// A connection to the host in `bytes`, on the port in `number`.
    Open,
    /// TLS on an open connection.
    Tls,
    /// The transmission of as many of the bytes as possible within the time limit.
    Send,
    /// At most `number` received bytes, as soon as some are available.
    Receive,
    Close,
    /// The end of the transmitted data.
    Shutdown,
    /// The handles among those in `bytes` that can be read or, with the flag [`WRITABLE`], written to.
    Poll,
    /// TLS without a connection.
    Machine,
    /// One step of TLS without a connection: `number` bytes of plaintext to send, then the received ciphertext.
    Step,
    /// An operation on an HTTP exchange.
    Fetch(FetchOp),
}

/// An operation on an HTTP exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchOp {
    /// A new exchange: `number` is the length of the head in `bytes`, and the rest is the body.
    Start,
    /// A piece of the request's body. `number` is 1 with the last piece.
    Body,
    /// The next event of the exchange.
    Next,
    /// The cancellation of the exchange.
    Abort,
    /// The exchanges among those in `bytes` that have an event or, with the flag [`WRITABLE`], accept more of the body.
    Wait,
}

/// A parsed network request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub op: Op,
    pub handle: u32,
    pub number: u32,
    /// The time limit, or `None` if only the job's limits apply.
    pub wait: Option<Duration>,
    pub bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a request. Returns `None` if it is malformed.
    pub(super) fn parse(request: &'a [u8]) -> Option<Self> {
        let (head, bytes) = request.split_at_checked(HEADER_SIZE)?;
        let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
        if head[0] != REQUEST_TAG {
            return None;
        }
        let op = match head[1] {
            1 => Op::Open,
            2 => Op::Tls,
            3 => Op::Send,
            4 => Op::Receive,
            5 => Op::Close,
            6 => Op::Shutdown,
            7 => Op::Poll,
            8 => Op::Machine,
            9 => Op::Step,
            16 => Op::Fetch(FetchOp::Start),
            17 => Op::Fetch(FetchOp::Body),
            18 => Op::Fetch(FetchOp::Next),
            19 => Op::Fetch(FetchOp::Abort),
            20 => Op::Fetch(FetchOp::Wait),
            _ => return None,
        };
        let wait = word(10)?;
        let wait = (wait != NO_TIMEOUT).then(|| Duration::from_millis(wait.into()));
        Some(Self { op, handle: word(2)?, number: word(6)?, wait, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_truncated_and_unknown_requests() {
        let mut request = vec![REQUEST_TAG, 4, 7, 0, 0, 0, 0, 1, 0, 0, 0xe8, 3, 0, 0];
        let parsed = Request::parse(&request).expect("the request is valid");
        assert_eq!((parsed.op, parsed.handle, parsed.number), (Op::Receive, 7, 256));
        assert_eq!(parsed.wait, Some(Duration::from_secs(1)));
        assert!(Request::parse(&request[..13]).is_none());
        for bad in [0, 10, 15, 21, 255] {
            request[1] = bad;
            assert!(Request::parse(&request).is_none(), "{bad}");
        }
        request[..2].copy_from_slice(&[b'{', 4]);
        assert!(Request::parse(&request).is_none());
    }
}
