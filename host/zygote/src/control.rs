//! Status and end of the host process.

use std::io;

use rustix::event::Timespec;
use rustix::net::SendFlags;

use crate::client::{Connection, connect, has_answered, receive};
use crate::place::Place;
use crate::program::ProgramId;
use crate::wire::{Hello, Reply, RequestKind, Status};

/// Maximum time until the host process answers a request.
const ANSWER_TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Error of a request to the host process.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The connection failed.
    #[error("cannot reach the host process: {0}")]
    Io(#[from] io::Error),
    /// The host process refused the request.
    #[error("the host process refused the request")]
    Refused,
}

/// Returns the state of the host process; `None` if there is none.
///
/// # Errors
/// [`ControlError`] if the host process cannot be reached or refuses the request.
pub fn status(place: &Place) -> Result<Option<Status>, ControlError> {
    match ask(place, RequestKind::Status)? {
        None => Ok(None),
        Some(Reply::Status(status)) => Ok(Some(status)),
        Some(_) => Err(ControlError::Refused),
    }
}

/// Asks the host process to end when the runs in progress have ended. Returns false if there is none.
///
/// # Errors
/// [`ControlError`] if the host process cannot be reached or refuses the request.
pub fn stop(place: &Place) -> Result<bool, ControlError> {
    match ask(place, RequestKind::Stop)? {
        None => Ok(false),
        Some(Reply::Stopping) => Ok(true),
        Some(_) => Err(ControlError::Refused),
    }
}

fn ask(place: &Place, kind: RequestKind) -> Result<Option<Reply>, ControlError> {
    let Some(Connection { socket, token }) = connect(place)? else { return Ok(None) };
    let hello = Hello { kind, program: ProgramId::of_this_process()?, token };
    rustix::net::send(&socket, &hello.encode(), SendFlags::NOSIGNAL).map_err(io::Error::from)?;
    if !has_answered(&socket, &ANSWER_TIMEOUT)? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer; end it if it is stopped").into());
    }
    // A host process that ends without an answer is about to be gone.
    Ok(receive(&socket)?)
}
