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
const MOST: usize = 256 << 10;

/// Maximum bytes of one frame; the HTTP client copies each frame.
const PIECE: usize = 64 << 10;

/// Minimum bytes that a piece counts, however short it is.
const LEAST: usize = 4 << 10;

pub(super) enum RequestBody {
    /// A complete body: the bytes that are not sent yet.
    Whole(Bytes),
    /// A body that the guest sends in pieces.
    Pieces {
        pieces: mpsc::UnboundedReceiver<Bytes>,
        /// Number of bytes still to come, if it is known.
        left: Option<u64>,
    },
}

/// The guest's end of a body that is sent in pieces.
pub(super) struct Giver {
    pieces: mpsc::UnboundedSender<Bytes>,
    room: Arc<Semaphore>,
    next: Option<Next>,
    /// Number of bytes already accepted of a buffer that the guest has to send again.
    taken: usize,
}

/// Space for the next piece, which the guest waits for.
enum Next {
    Awaited(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    There(OwnedSemaphorePermit),
}

/// Bytes, and the permit for the space that they take.
struct Held(Vec<u8>, OwnedSemaphorePermit);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        let Self(bytes, _room) = self;
        bytes
    }
}

/// Copies the bytes. The permit is released when the last part of the copy is dropped.
pub(super) fn held(bytes: &[u8], room: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(Held(bytes.to_vec(), room))
}

impl Giver {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Bytes>) {
        let (pieces, taken) = mpsc::unbounded_channel();
        (Self { pieces, room: Arc::new(Semaphore::new(MOST)), next: None, taken: 0 }, taken)
    }

    /// Accepts these bytes and returns true if there is space for all of them. Otherwise the caller has to pass the
    /// same bytes again, and the part that was already accepted is skipped.
    pub(super) fn give(&mut self, bytes: &[u8]) -> bool {
        while let Some(rest) = bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            let piece = &rest[..rest.len().min(PIECE)];
            let Some(room) = self.room_for(piece.len()) else { return false };
            self.taken += piece.len();
            // The send fails if the server has answered early or the exchange has failed: the next event reports it.
            let _taken = self.pieces.send(held(piece, room));
        }
        self.taken = 0;
        true
    }

    fn room_for(&mut self, len: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = len.max(LEAST);
        let there = match self.next.take() {
            Some(Next::There(room)) => Some(room),
            Some(Next::Awaited(mut room)) => match (&mut room).now_or_never() {
                Some(room) => room,
                None => {
                    self.next = Some(Next::Awaited(room));
                    return None;
                }
            },
            None => None,
        };
        // The permit is for a different size if the guest now sends other bytes than before.
        if let Some(room) = there.filter(|room| room.num_permits() == wanted) {
            return Some(room);
        }
        let wanted = u32::try_from(wanted).ok()?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(wanted).ok();
        if room.is_none() {
            let room = Arc::clone(&self.room).acquire_many_owned(wanted);
            self.next = Some(Next::Awaited(Box::pin(async { room.await.ok() })));
        }
        room
    }

    /// Returns ready once there is space for more bytes.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(Next::Awaited(room)) = &mut self.next {
            self.next = ready!(room.as_mut().poll(cx)).map(Next::There);
        }
        Poll::Ready(())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(bytes.split_to(bytes.len().min(PIECE))),
            Self::Pieces { pieces, left } => {
                let piece = ready!(pieces.poll_recv(cx));
                let gone = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                *left = left.map(|left| left.saturating_sub(gone));
                piece
            }
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_taken_as_far_as_there_is_room_and_nothing_of_it_twice() {
        let (mut giver, mut taken) = Giver::new();
        let body: Vec<u8> = (0..251).cycle().take(MOST + 2 * PIECE + 7).collect();
        let mut came = Vec::new();
        let mut turns = 0;
        while !giver.give(&body) {
            turns += 1;
            let mut held = 0;
            while let Ok(piece) = taken.try_recv() {
                held += piece.len();
                came.extend_from_slice(&piece);
            }
            assert!(held <= MOST && turns < 10, "{held} bytes are held in turn {turns}");
        }
        assert!(turns > 0, "there is room for anything");
        while let Ok(piece) = taken.try_recv() {
            came.extend_from_slice(&piece);
        }
        assert!(came == body, "{} bytes of {} came", came.len(), body.len());
    }

    #[test]
    fn short_pieces_are_not_countless() {
        let (mut giver, _taken) = Giver::new();
        let count = (0..).take_while(|_| giver.give(b"x")).count();
        assert_eq!(count, MOST / LEAST);
    }

    #[test]
    fn what_nobody_takes_any_more_is_no_burden() {
        let (mut giver, taken) = Giver::new();
        assert!(!giver.give(&vec![0; 2 * MOST]));
        drop(taken);
        assert!(giver.give(&vec![0; 2 * MOST]));
    }
}
