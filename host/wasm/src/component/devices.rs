//! Virtual devices as open files of a component. Their descriptors have no counterpart in `wasmtime-wasi`.

use bytes::Bytes;
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{StdinStream as _, StdoutStream as _};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, MetadataHashValue, OpenFlags,
};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, FsResult, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use crate::component::stdio::Stdio;
use crate::devices::{self, Device, Directory, LookupError, Node};
use crate::mounts::device_path;

/// Maximum bytes per read.
const CHUNK_SIZE: usize = 64 << 10;

/// The resource table's entry of an open virtual file. Only its index is used.
pub(crate) struct Placeholder;

/// An open virtual file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VirtualFile {
    kind: Kind,
    flags: DescriptorFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory(Directory),
    Device(Device),
    /// A standard stream, by its number.
    Stream(i32),
}

/// Resolves a path relative to an open file to a virtual file. `None` if the path does not lead to `/dev`.
pub(crate) fn resolve_virtual(
    file: Option<VirtualFile>,
    is_root: bool,
    path: &str,
) -> Option<Result<VirtualFile, ErrorCode>> {
    let found = match file {
        Some(VirtualFile { kind: Kind::Directory(directory), .. }) => devices::lookup(directory, path),
        Some(_) => Err(LookupError::NotADirectory),
        None if is_root => devices::lookup(Directory::Devices, device_path(path)?),
        None => return None,
    };
    let kind = match found {
        Ok(Node::Directory(directory)) => Ok(Kind::Directory(directory)),
        Ok(Node::Device(device)) => Ok(Kind::Device(device)),
        Ok(Node::Descriptor(number @ 0..=2)) => Ok(Kind::Stream(number)),
        // Other numbers are descriptors of the guest's own C library, which the host does not know.
        Ok(Node::Descriptor(_)) | Err(LookupError::NotFound) => Err(ErrorCode::NoEntry),
        Err(LookupError::NotADirectory) => Err(ErrorCode::NotDirectory),
    };
    Some(kind.map(|kind| VirtualFile { kind, flags: DescriptorFlags::empty() }))
}

/// Returns the error for creating a file or directory at a path in `/dev`.
pub(crate) fn creation_error(found: Result<VirtualFile, ErrorCode>) -> ErrorCode {
    match found {
        Ok(_) => ErrorCode::Exist,
        Err(ErrorCode::NoEntry) => ErrorCode::Access,
        Err(error) => error,
    }
}

impl VirtualFile {
    /// Returns the file as opened with these flags.
    ///
    /// # Errors
    /// The error that a native process without write permission to `/dev` gets.
    pub(crate) fn open(
        found: Result<Self, ErrorCode>,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Self, ErrorCode> {
        let creates = open_flags.contains(OpenFlags::CREATE);
        let Self { kind, .. } = match found {
            Ok(_) if creates && open_flags.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist),
            Err(ErrorCode::NoEntry) if creates => return Err(ErrorCode::Access),
            found => found?,
        };
        let (reads, writes) = (flags.contains(DescriptorFlags::READ), flags.contains(DescriptorFlags::WRITE));
        match kind {
            Kind::Directory(_) if writes || creates => Err(ErrorCode::IsDirectory),
            Kind::Device(_) | Kind::Stream(_) if open_flags.contains(OpenFlags::DIRECTORY) => {
                Err(ErrorCode::NotDirectory)
            }
            Kind::Stream(0) if writes => Err(ErrorCode::Access),
            Kind::Stream(1 | 2) if reads => Err(ErrorCode::Access),
            _ => Ok(Self { kind, flags }),
        }
    }

    pub(crate) fn is_directory(self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    pub(crate) fn flags(self) -> DescriptorFlags {
        self.flags
    }

    pub(crate) fn descriptor_type(self) -> DescriptorType {
        match self.kind {
            Kind::Directory(_) => DescriptorType::Directory,
            Kind::Device(_) => DescriptorType::CharacterDevice,
            Kind::Stream(_) => DescriptorType::Unknown,
        }
    }

    pub(crate) fn stat(self) -> DescriptorStat {
        DescriptorStat {
            type_: self.descriptor_type(),
            link_count: 1,
            size: 0,
            data_access_timestamp: None,
            data_modification_timestamp: None,
            status_change_timestamp: None,
        }
    }

    pub(crate) fn metadata_hash(self) -> MetadataHashValue {
        let lower = match self.kind {
            Kind::Directory(Directory::Devices) => 1,
            Kind::Directory(Directory::Descriptors) => 2,
            Kind::Device(device) => device.number(),
            Kind::Stream(number) => 16 + u64::from(number.unsigned_abs()),
        };
        // A file on a disk has this upper half of its hash only by coincidence.
        MetadataHashValue { lower, upper: 0xdec1_ce50_0000_0000 }
    }

    /// Reads up to `length` bytes. The flag is true at the end of the file.
    pub(crate) fn read(self, length: u64) -> FsResult<(Vec<u8>, bool)> {
        let Kind::Device(device) = self.kind else { return Err(ErrorCode::InvalidSeek.into()) };
        if !self.flags.contains(DescriptorFlags::READ) {
            return Err(ErrorCode::BadDescriptor.into());
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(CHUNK_SIZE).min(CHUNK_SIZE)];
        let read = device.read(&mut bytes);
        bytes.truncate(read);
        Ok((bytes, device == Device::Null))
    }

    /// Writes bytes and returns the number of bytes accepted.
    pub(crate) fn write(self, length: usize) -> FsResult<u64> {
        match self.kind {
            _ if !self.flags.contains(DescriptorFlags::WRITE) => Err(ErrorCode::BadDescriptor.into()),
            Kind::Device(Device::Full) => Err(ErrorCode::InsufficientSpace.into()),
            Kind::Device(_) => Ok(length as u64),
            Kind::Directory(_) | Kind::Stream(_) => Err(ErrorCode::InvalidSeek.into()),
        }
    }

    pub(crate) fn input(self, stdio: &Stdio) -> FsResult<DynInputStream> {
        match self.kind {
            Kind::Device(device) if self.flags.contains(DescriptorFlags::READ) => Ok(Box::new(DeviceStream(device))),
            Kind::Stream(0) => Ok(stdio.stdin().p2_stream()),
            _ => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    pub(crate) fn output(self, stdio: &Stdio) -> FsResult<DynOutputStream> {
        match self.kind {
            Kind::Device(device) if self.flags.contains(DescriptorFlags::WRITE) => Ok(Box::new(DeviceStream(device))),
            Kind::Stream(1) => Ok(stdio.output(0).p2_stream()),
            Kind::Stream(2) => Ok(stdio.output(1).p2_stream()),
            _ => Err(ErrorCode::BadDescriptor.into()),
        }
    }
}

/// Converts a virtual file's descriptor to the resource of its table entry.
pub(crate) fn placeholder(fd: &Resource<Descriptor>) -> Resource<Placeholder> {
    Resource::new_own(fd.rep())
}

/// A device that is read or written without a position.
struct DeviceStream(Device);

#[async_trait]
impl Pollable for DeviceStream {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for DeviceStream {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.0 == Device::Null {
            return Err(StreamError::Closed);
        }
        let mut bytes = vec![0; size.min(CHUNK_SIZE)];
        self.0.read(&mut bytes);
        Ok(bytes.into())
    }
}

#[async_trait]
impl OutputStream for DeviceStream {
    fn write(&mut self, _bytes: Bytes) -> StreamResult<()> {
        match self.0 {
            Device::Full => {
                let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Err(StreamError::LastOperationFailed(error.into()))
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK_SIZE)
    }
}
