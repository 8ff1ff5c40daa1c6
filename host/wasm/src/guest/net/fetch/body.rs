//! The body of a request: the guest's end that fills it, and the exchange's end that sends it.
//!
//! The host limits the bytes that it holds of each body. A byte counts until the last byte of its piece is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum bytes of one body that are not sent yet.
const MAX_UNSENT_BYTES: usize = 256 << 10;

/// Maximum bytes of one frame; the HTTP client copies each frame.
const MAX_FRAME_SIZE: usize = 64 << 10;

/// Minimum bytes that a piece counts, however short it is.
const MIN_PIECE_COST: usize = 4 << 10;

pub(super) enum RequestBody {
    /// A complete body: the bytes that are not sent yet.
    Complete(Bytes),
    /// A body that the guest sends in pieces.
    Streamed {
        pieces: mpsc::UnboundedReceiver<Bytes>,
        /// Number of bytes still to come, if it is known.
        remaining: Option<u64>,
    },
}

/// The guest's end of a body that is sent in pieces.
pub(super) struct BodyWriter {
    pieces: mpsc::UnboundedSender<Bytes>,
    space: Arc<Semaphore>,
    next: Option<NextSpace>,
    /// Number of bytes already accepted of a buffer that the guest has to send again.
    taken: usize,
}

/// Space for the next piece, which the guest waits for.
enum NextSpace {
    Waiting(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    Acquired(OwnedSemaphorePermit),
}

/// Bytes, and the permit for the space that they take.
struct HeldBytes(Vec<u8>, OwnedSemaphorePermit);

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        let Self(bytes, _room) = self;
        bytes
    }
}

/// Copies the bytes. The permit is released when the last part of the copy is dropped.
pub(super) fn held_bytes(bytes: &[u8], space: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(HeldBytes(bytes.to_vec(), space))
}

impl BodyWriter {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Bytes>) {
        let (pieces, taken) = mpsc::unbounded_channel();
        (Self { pieces, space: Arc::new(Semaphore::new(MAX_UNSENT_BYTES)), next: None, taken: 0 }, taken)
    }

    /// Accepts these bytes and returns true if there is space for all of them. Otherwise the caller has to pass the
    /// same bytes again, and the part that was already accepted is skipped.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        while let Some(rest) = bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            let piece = &rest[..rest.len().min(MAX_FRAME_SIZE)];
            let Some(space) = self.acquire_space(piece.len()) else { return false };
            self.taken += piece.len();
            // The send fails if the server has answered early or the exchange has failed: the next event reports it.
            let _taken = self.pieces.send(held_bytes(piece, space));
        }
        self.taken = 0;
        true
    }

    fn acquire_space(&mut self, len: usize) -> Option<OwnedSemaphorePermit> {
        let permits = len.max(MIN_PIECE_COST);
        let acquired = match self.next.take() {
            Some(NextSpace::Acquired(space)) => Some(space),
            Some(NextSpace::Waiting(mut space)) => match (&mut space).now_or_never() {
                Some(space) => space,
                None => {
                    self.next = Some(NextSpace::Waiting(space));
                    return None;
                }
            },
            None => None,
        };
        // The permit is for a different size if the guest now sends other bytes than before.
        if let Some(space) = acquired.filter(|space| space.num_permits() == permits) {
            return Some(space);
        }
        let permits = u32::try_from(permits).ok()?;
        let space = Arc::clone(&self.space).try_acquire_many_owned(permits).ok();
        if space.is_none() {
            let space = Arc::clone(&self.space).acquire_many_owned(permits);
            self.next = Some(NextSpace::Waiting(Box::pin(async { space.await.ok() })));
        }
        space
    }

    /// Returns ready once there is space for more bytes.
    pub(super) fn poll_space(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(NextSpace::Waiting(space)) = &mut self.next {
            self.next = ready!(space.as_mut().poll(cx)).map(NextSpace::Acquired);
        }
        Poll::Ready(())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Complete(bytes) if bytes.is_empty() => None,
            Self::Complete(bytes) => Some(bytes.split_to(bytes.len().min(MAX_FRAME_SIZE))),
            Self::Streamed { pieces, remaining } => {
                let piece = ready!(pieces.poll_recv(cx));
                let sent = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                *remaining = remaining.map(|remaining| remaining.saturating_sub(sent));
                piece
            }
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Complete(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Complete(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streamed { remaining, .. } => remaining.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_body_within_space_without_duplicates() {
        let (mut writer, mut taken) = BodyWriter::new();
        let body: Vec<u8> = (0..251).cycle().take(MAX_UNSENT_BYTES + 2 * MAX_FRAME_SIZE + 7).collect();
        let mut received = Vec::new();
        let mut rounds = 0;
        while !writer.write(&body) {
            rounds += 1;
            let mut held_bytes = 0;
            while let Ok(piece) = taken.try_recv() {
                held_bytes += piece.len();
                received.extend_from_slice(&piece);
            }
            assert!(held_bytes <= MAX_UNSENT_BYTES && rounds < 10, "{held_bytes} bytes are held in round {rounds}");
        }
        assert!(rounds > 0, "the writer accepted the whole body at once");
        while let Ok(piece) = taken.try_recv() {
            received.extend_from_slice(&piece);
        }
        assert!(received == body, "{} bytes of {} arrived", received.len(), body.len());
    }

    #[test]
    fn limits_number_of_short_pieces() {
        let (mut writer, _taken) = BodyWriter::new();
        let count = (0..).take_while(|_| writer.write(b"x")).count();
        assert_eq!(count, MAX_UNSENT_BYTES / MIN_PIECE_COST);
    }

    #[test]
    fn accepts_everything_after_receiver_is_dropped() {
        let (mut writer, taken) = BodyWriter::new();
        assert!(!writer.write(&vec![0; 2 * MAX_UNSENT_BYTES]));
        drop(taken);
        assert!(writer.write(&vec![0; 2 * MAX_UNSENT_BYTES]));
    }
}
