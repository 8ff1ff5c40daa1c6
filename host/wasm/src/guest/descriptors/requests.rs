//! Requests over `host.call` for duplicates of descriptors and for pipes, which WASI has no functions for.
//!
//! A request is ten bytes: [`REQUEST_TAG`], the operation, and two numbers. An answer is three numbers: a WASI error number
//! and up to two descriptors. All numbers are 32-bit and little-endian.

use crate::guest::descriptors::release;
use crate::guest::memory::read_u32;
use crate::guest::{Guest, errno};

/// The first byte of a request.
const REQUEST_TAG: u8 = 2;

/// Operations.
const DUPLICATE: u8 = 1;
const DUPLICATE_TO: u8 = 2;
const PIPE: u8 = 3;

/// Bytes of a request.
const REQUEST_LEN: usize = 10;

/// Answers a request. Returns `None` if the operation is unknown.
pub(crate) async fn answer(guest: &mut Guest, request: [u8; REQUEST_LEN]) -> wasmtime::Result<Option<Vec<u8>>> {
    let number = |at| read_u32(&request, at).unwrap_or(0) as i32;
    let (one, other) = (number(2), number(6));
    let result = match request[1] {
        DUPLICATE => duplicate(guest, one),
        DUPLICATE_TO => duplicate_to(guest, one, other).await?,
        PIPE => make_pipe(guest),
        _ => return Ok(None),
    };
    let numbers = match result {
        Ok([one, other]) => [errno::SUCCESS, one, other],
        Err(refused) => [refused, 0, 0],
    };
    Ok(Some(numbers.into_iter().flat_map(i32::to_le_bytes).collect()))
}

/// Parses a request. Returns `None` for other bytes.
pub(crate) fn parse(bytes: &[u8]) -> Option<[u8; REQUEST_LEN]> {
    bytes.try_into().ok().filter(|request: &[u8; REQUEST_LEN]| request[0] == REQUEST_TAG)
}

fn duplicate(guest: &mut Guest, fd: i32) -> Result<[i32; 2], i32> {
    let file = guest.descriptors.get(fd)?.clone();
    guest.quota.open().map_err(|_| errno::MFILE)?;
    match guest.descriptors.insert(file) {
        Ok(number) => Ok([number, 0]),
        Err(refused) => {
            guest.quota.close();
            Err(refused)
        }
    }
}

async fn duplicate_to(guest: &mut Guest, from: i32, to: i32) -> wasmtime::Result<Result<[i32; 2], i32>> {
    let file = match guest.descriptors.get(from) {
        Ok(_) if from == to => return Ok(Ok([to, 0])),
        Ok(file) => file.clone(),
        Err(refused) => return Ok(Err(refused)),
    };
    if guest.quota.open().is_err() {
        return Ok(Err(errno::MFILE));
    }
    match guest.descriptors.replace(to, file) {
        Ok(replaced) => {
            if let Some(replaced) = replaced {
                // As natively, an error from closing the previous file is lost.
                release(guest, replaced).await?;
            }
            Ok(Ok([to, 0]))
        }
        Err(refused) => {
            guest.quota.close();
            Ok(Err(refused))
        }
    }
}

fn make_pipe(guest: &mut Guest) -> Result<[i32; 2], i32> {
    let mut numbers = [0; 2];
    let ends = guest.descriptors.make_pipe()?;
    for (index, end) in ends.into_iter().enumerate() {
        let number = guest.quota.open().map_err(|_| errno::MFILE).and_then(|()| {
            let inserted = guest.descriptors.insert(end);
            if inserted.is_err() {
                guest.quota.close();
            }
            inserted
        });
        match number {
            Ok(number) => numbers[index] = number,
            Err(refused) => {
                if index == 1 && guest.descriptors.remove(numbers[0]).is_ok() {
                    guest.quota.close();
                }
                return Err(refused);
            }
        }
    }
    Ok(numbers)
}
