//! The body of a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

pub(super) enum RequestBody {
    /// All of it, until it was sent.
    Whole(Option<Bytes>),
    /// As it comes from the guest.
    Pieces {
        pieces: mpsc::Receiver<Bytes>,
        /// Bytes that are still to come, if it is known how many.
        left: Option<u64>,
    },
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
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
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Pieces { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
