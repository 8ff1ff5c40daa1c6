//! WASI's `filestat` and `fdstat` of files that codebox serves itself.

use wiggle::GuestMemory;

use crate::devices::{Device, Directory};
use crate::guest::descriptors::table::{Kind, OpenFile, Stream};
use crate::guest::errno;
use crate::guest::memory::range;

/// Bytes of WASI's `filestat` and `fdstat`.
const FILESTAT_LEN: usize = 64;
const FDSTAT_LEN: usize = 24;

/// WASI's file types.
const UNKNOWN: u8 = 0;
const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY: u8 = 3;

/// WASI's rights, from which a C library derives the access mode of a file.
const FD_READ: u64 = 1 << 1;
const FD_SEEK: u64 = 1 << 2;
const FD_WRITE: u64 = 1 << 6;
const FD_READDIR: u64 = 1 << 14;
const FD_FILESTAT_GET: u64 = 1 << 21;
const POLL: u64 = 1 << 27;

/// The device number of the file system that contains the devices.
const DEVICE_FILE_SYSTEM: u64 = 5;

/// The type and identity of a file that is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub file_type: u8,
    file_system: u64,
    number: u64,
    links: u64,
}

pub(crate) fn device_stat(device: Device) -> Stat {
    Stat { file_type: CHARACTER_DEVICE, file_system: DEVICE_FILE_SYSTEM, number: device.number(), links: 1 }
}

pub(crate) fn directory_stat(directory: Directory) -> Stat {
    let number = match directory {
        Directory::Devices => 1,
        Directory::Descriptors => 2,
    };
    Stat { file_type: DIRECTORY, file_system: DEVICE_FILE_SYSTEM, number, links: 2 }
}

impl OpenFile {
    /// Returns the type and identity of a virtual file, or `None` for a file of `wasmtime-wasi`.
    pub(crate) fn stat(&self) -> Option<Stat> {
        match &self.kind {
            Kind::Wasi(_) => None,
            Kind::Device(device) => Some(device_stat(*device)),
            Kind::Directory(directory) => Some(directory_stat(*directory)),
            // WASI has no type for pipes, and the streams may be of any type.
            Kind::Stream(stream) => {
                let number = match stream {
                    Stream::Input => 16,
                    Stream::Output => 17,
                    Stream::Error => 18,
                };
                let file_type = if self.is_terminal { CHARACTER_DEVICE } else { UNKNOWN };
                Some(Stat { file_type, file_system: DEVICE_FILE_SYSTEM, number, links: 1 })
            }
            Kind::Pipe(end) => {
                Some(Stat { file_type: UNKNOWN, file_system: DEVICE_FILE_SYSTEM, number: end.number(), links: 1 })
            }
        }
    }

    /// Returns WASI's `fdstat`, or `None` for a file of `wasmtime-wasi`.
    pub(crate) fn fdstat(&self) -> Option<[u8; FDSTAT_LEN]> {
        let stat = self.stat()?;
        let mut rights = FD_FILESTAT_GET | POLL;
        if stat.file_type == DIRECTORY {
            rights |= FD_READDIR;
        } else {
            rights |= if self.readable { FD_READ } else { 0 } | if self.writable { FD_WRITE } else { 0 };
        }
        // A C library treats a character device without the right to seek as a terminal.
        if stat.file_type == CHARACTER_DEVICE && !self.is_terminal {
            rights |= FD_SEEK;
        }
        let mut bytes = [0; FDSTAT_LEN];
        bytes[0] = stat.file_type;
        bytes[2..4].copy_from_slice(&self.flags().to_le_bytes());
        bytes[8..16].copy_from_slice(&rights.to_le_bytes());
        bytes[16..24].copy_from_slice(&rights.to_le_bytes());
        Some(bytes)
    }
}

/// Writes a `filestat` into the guest's memory and returns an error number.
pub(crate) fn write_stat(memory: &mut GuestMemory<'_>, out: i32, stat: Stat) -> i32 {
    let GuestMemory::Unshared(bytes) = memory else { return errno::FAULT };
    let Some(place) = range(bytes, out, FILESTAT_LEN as i32) else { return errno::FAULT };
    let place = &mut bytes[place];
    place.fill(0);
    place[..8].copy_from_slice(&stat.file_system.to_le_bytes());
    place[8..16].copy_from_slice(&stat.number.to_le_bytes());
    place[16] = stat.file_type;
    place[24..32].copy_from_slice(&stat.links.to_le_bytes());
    errno::SUCCESS
}
