use std::time::Duration;

/// The first byte of a request for the network; the other requests are JSON.
pub(crate) const MARK: u8 = 1;

/// Bytes of the head: the mark, the operation, a handle and two numbers.
const HEAD: usize = 14;

/// Stands beside a number for the wish to send more.
pub(super) const ROOM: u32 = 1 << 31;

/// Stands for no bound on the time.
const FOREVER: u32 = u32::MAX;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// A connection to the host that follows, on the port that is the number.
    Open,
    /// TLS on a connection.
    Tls,
    /// Sends as many of the bytes that follow as can go in the time.
    Send,
    /// At most this number of bytes, as soon as there are some.
    Receive,
    Close,
    /// The end of what is sent.
    Shutdown,
    /// Which of the handles that follow can be read or, where that is the wish, written to.
    Poll,
    /// TLS apart from a connection.
    Machine,
    /// One turn of that: what is said, of which the number is the length, then what has come.
    Turn,
    /// Something about a whole exchange.
    Fetch(FetchOp),
}

/// What is asked about an exchange of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchOp {
    /// Begins one; the number is the length of the head that follows, and the rest is the body.
    Start,
    /// More of its body; the number is 1 with the last of it.
    Body,
    /// What came of it next.
    Next,
    /// Gives it up.
    Abort,
    /// Which exchanges have something to tell.
    Wait,
}

/// A request, taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub op: Op,
    pub handle: u32,
    pub number: u32,
    /// How long it may take; nothing for as long as the job may.
    pub wait: Option<Duration>,
    pub bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// Nothing if it is no request.
    pub(super) fn parse(request: &'a [u8]) -> Option<Self> {
        let (head, bytes) = request.split_at_checked(HEAD)?;
        let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
        if head[0] != MARK {
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
            9 => Op::Turn,
            16 => Op::Fetch(FetchOp::Start),
            17 => Op::Fetch(FetchOp::Body),
            18 => Op::Fetch(FetchOp::Next),
            19 => Op::Fetch(FetchOp::Abort),
            20 => Op::Fetch(FetchOp::Wait),
            _ => return None,
        };
        let wait = word(10)?;
        let wait = (wait != FOREVER).then(|| Duration::from_millis(wait.into()));
        Some(Self { op, handle: word(2)?, number: word(6)?, wait, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_of_known_kinds_are_taken() {
        let mut request = vec![MARK, 4, 7, 0, 0, 0, 0, 1, 0, 0, 0xe8, 3, 0, 0];
        let parsed = Request::parse(&request).expect("it is one");
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
