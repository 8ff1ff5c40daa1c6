//! Polls of descriptors and clocks.
//!
//! Only the guest itself reads and writes its pipes, so the state of a descriptor does not change while the guest
//! waits. The host waits only for clocks, through `wasmtime-wasi`.

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestMemory;

use crate::guest::descriptors::table::{Kind, OpenFile, Stream};
use crate::guest::linker::WASI;
use crate::guest::memory::{range, read_u32, split};
use crate::guest::{Guest, errno};

/// Maximum number of subscriptions in one poll, more than a program with a few hundred descriptors can use.
const MAX_SUBSCRIPTIONS: i32 = 1024;

/// Bytes of a subscription and of an event.
const SUBSCRIPTION_LEN: usize = 48;
const EVENT_LEN: usize = 32;

/// Kinds of subscriptions and events.
const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
const FD_WRITE: u8 = 2;

/// Event flag: the other end is closed.
const HANGUP: u16 = 1;

/// The state of a descriptor that is ready.
struct Ready {
    bytes: u64,
    flags: u16,
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        WASI,
        "poll_oneoff",
        |mut caller: Caller<'_, Guest>, (subs, events, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, guest) = split(&mut caller)?;
                poll(&mut memory, guest, subs, events, count, out).await
            })
        },
    )?;
    Ok(())
}

async fn poll(
    memory: &mut GuestMemory<'_>,
    guest: &mut Guest,
    subs: i32,
    events: i32,
    count: i32,
    out: i32,
) -> wasmtime::Result<i32> {
    if !(1..=MAX_SUBSCRIPTIONS).contains(&count) {
        return Ok(errno::INVAL);
    }
    let GuestMemory::Unshared(bytes) = memory else { return Ok(errno::FAULT) };
    let (Some(list), Some(places), Some(used)) = (
        range(bytes, subs, count * SUBSCRIPTION_LEN as i32),
        range(bytes, events, count * EVENT_LEN as i32),
        range(bytes, out, 4),
    ) else {
        return Ok(errno::FAULT);
    };
    let mut clocks = Vec::new();
    let mut ready = Vec::new();
    for subscription in bytes[list].chunks_exact(SUBSCRIPTION_LEN) {
        let kind = subscription[8];
        if kind == CLOCK {
            clocks.extend_from_slice(subscription);
            continue;
        }
        let fd = read_u32(subscription, 16).unwrap_or(u32::MAX) as i32;
        let found = match guest.descriptors.get(fd) {
            Ok(file) => state(file, kind),
            Err(refused) => Err(refused),
        };
        match found {
            Ok(Some(state)) => ready.extend_from_slice(&event(subscription, kind, &state)),
            Ok(None) => {}
            // Only the event of this descriptor reports the error, and `poll` of C returns it as POLLNVAL.
            Err(errno::BADF) => ready.extend_from_slice(&error_event(subscription, kind, errno::BADF)),
            Err(refused) => return Ok(refused),
        }
    }
    if ready.is_empty() {
        if clocks.is_empty() {
            return Ok(errno::DEADLK);
        }
        // The clocks are polled in separate memory: `wasmtime-wasi` would resolve descriptors by its own numbers.
        let count = clocks.len() / SUBSCRIPTION_LEN;
        let (events_at, used_at) = (clocks.len(), clocks.len() + count * EVENT_LEN);
        clocks.resize(used_at + 4, 0);
        let mut scratch = GuestMemory::Unshared(&mut clocks);
        let (count, at) = (count as i32, events_at as i32);
        let result = wasi::poll_oneoff(&mut guest.wasi, &mut scratch, 0, at, count, used_at as i32).await?;
        if result != errno::SUCCESS {
            return Ok(result);
        }
        let events_len = read_u32(&clocks, used_at).unwrap_or(0) as usize * EVENT_LEN;
        ready.extend_from_slice(clocks.get(events_at..events_at + events_len).unwrap_or_default());
    }
    let GuestMemory::Unshared(bytes) = memory else { return Ok(errno::FAULT) };
    bytes[places.start..places.start + ready.len()].copy_from_slice(&ready);
    bytes[used].copy_from_slice(&((ready.len() / EVENT_LEN) as u32).to_le_bytes());
    Ok(errno::SUCCESS)
}

/// Returns the state of a descriptor that is ready, or `None` for one that is not.
fn state(file: &OpenFile, kind: u8) -> Result<Option<Ready>, i32> {
    let always_ready = Ok(Some(Ready { bytes: 1, flags: 0 }));
    match (&file.kind, kind) {
        (Kind::Wasi(_) | Kind::Device(_) | Kind::Directory(_), FD_READ | FD_WRITE) => always_ready,
        (Kind::Stream(Stream::Input), FD_READ) => always_ready,
        (Kind::Stream(Stream::Output | Stream::Error), FD_WRITE) => always_ready,
        (Kind::Pipe(end), FD_READ) if file.readable => {
            let flags = if end.is_peer_closed() { HANGUP } else { 0 };
            let bytes = end.available() as u64;
            Ok((bytes > 0 || flags != 0).then_some(Ready { bytes, flags }))
        }
        (Kind::Pipe(end), FD_WRITE) if file.writable => {
            let flags = if end.is_peer_closed() { HANGUP } else { 0 };
            Ok((end.is_writable() || flags != 0).then_some(Ready { bytes: 1, flags }))
        }
        (_, FD_READ | FD_WRITE) => Err(errno::BADF),
        _ => Err(errno::INVAL),
    }
}

fn error_event(subscription: &[u8], kind: u8, error: i32) -> [u8; EVENT_LEN] {
    let mut event = event(subscription, kind, &Ready { bytes: 0, flags: 0 });
    event[8..10].copy_from_slice(&(error as u16).to_le_bytes());
    event
}

fn event(subscription: &[u8], kind: u8, ready: &Ready) -> [u8; EVENT_LEN] {
    let mut event = [0; EVENT_LEN];
    event[..8].copy_from_slice(&subscription[..8]);
    event[10] = kind;
    event[16..24].copy_from_slice(&ready.bytes.to_le_bytes());
    event[24..26].copy_from_slice(&ready.flags.to_le_bytes());
    event
}
