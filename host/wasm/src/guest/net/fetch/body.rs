//! The body of a request: what the guest gives of it, and what the exchange takes.
//!
//! The host holds no more of one than there is room for. What was given counts until the last of it was sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of one body that are on their way at most.
const MOST: usize = 256 << 10;

/// Bytes that go at once at most; HTTP copies what it is given.
const PIECE: usize = 64 << 10;

/// What the shortest piece takes of the room.
const LEAST: usize = 4 << 10;

pub(super) enum RequestBody {
    /// What was not sent of it yet.
    Whole(Bytes),
    /// As it comes from the guest.
    Pieces {
        pieces: mpsc::UnboundedReceiver<Bytes>,
        /// Bytes that are still to come, if it is known how many.
        left: Option<u64>,
    },
}

/// The guest's end of a body that comes piece by piece.
pub(super) struct Giver {
    pieces: mpsc::UnboundedSender<Bytes>,
    room: Arc<Semaphore>,
    next: Option<Next>,
    /// How much was taken of what has to be given again, since not all of it was.
    taken: usize,
}

/// Room for the next piece, which the guest waits for.
enum Next {
    Awaited(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    There(OwnedSemaphorePermit),
}

/// Bytes, and the room that they take.
struct Held(Vec<u8>, OwnedSemaphorePermit);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        let Self(bytes, _room) = self;
        bytes
    }
}

/// A copy of these bytes, which gives its room back when the last part of it is gone.
pub(super) fn held(bytes: &[u8], room: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(Held(bytes.to_vec(), room))
}

impl Giver {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Bytes>) {
        let (pieces, taken) = mpsc::unbounded_channel();
        (Self { pieces, room: Arc::new(Semaphore::new(MOST)), next: None, taken: 0 }, taken)
    }

    /// Takes these bytes, if there is room for all of them. Otherwise they have to be given again, and what was taken of
    /// them is not taken twice.
    pub(super) fn give(&mut self, bytes: &[u8]) -> bool {
        while let Some(rest) = bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            let piece = &rest[..rest.len().min(PIECE)];
            let Some(room) = self.room_for(piece.len()) else { return false };
            self.taken += piece.len();
            // The server has answered without it, or the exchange has failed: that is told of as its next event.
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
        // Whoever gives something else now than before has waited for other room.
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

    /// Ready once there is room for more.
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
