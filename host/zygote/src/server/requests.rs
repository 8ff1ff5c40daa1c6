//! Packets of clients.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::server::peer::Circumstances;
use crate::sys;
use crate::wire::{Hello, MAX_PACKET, RUN_DESCRIPTORS, RequestKind};

/// Receives the first packet of a client, with the descriptors of a run. `None` if it is malformed, or if the client is
/// gone.
pub(super) fn receive(client: &OwnedFd) -> Option<(Hello, Vec<OwnedFd>)> {
    let mut packet = [0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(client, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, flags).ok()?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    let hello = Hello::decode(&packet[..received.bytes])?;
    let expected = if hello.kind == RequestKind::Run { RUN_DESCRIPTORS } else { 0 };
    (descriptors.len() == expected).then_some((hello, descriptors))
}

/// Returns the circumstances of a client; `None` if it belongs to another user or is gone.
pub(super) fn circumstances(client: &OwnedFd) -> Option<Circumstances> {
    let peer = sys::peer(client).ok()?;
    if peer.pid == 0 || peer.uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    Circumstances::of(peer.pid).ok()
}

/// A packet of a client whose run is in progress.
pub(super) enum SignalPacket {
    /// A signal that the client received.
    Signal(i32),
    /// There is no packet.
    None,
    /// The client is gone, or has sent something else.
    Gone,
}

pub(super) fn receive_signal(client: &OwnedFd) -> SignalPacket {
    let mut packet = [0; 2];
    match rustix::net::recv(client, &mut packet[..], RecvFlags::DONTWAIT) {
        Ok((1, 1)) => SignalPacket::Signal(i32::from(packet[0])),
        Err(Errno::AGAIN | Errno::INTR) => SignalPacket::None,
        _ => SignalPacket::Gone,
    }
}
