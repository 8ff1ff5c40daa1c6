//! Virtual devices below `/dev`, the same for every kind of guest.
//!
//! A device is a value of this process: the host's `/dev` is never opened.

use rand::Rng as _;

/// Name of the device directory in the root.
pub(crate) const DIRECTORY: &str = "dev";

/// A device without state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// `/dev/null`: accepts all writes, and reads are at end of file.
    Null,
    /// `/dev/zero`: accepts all writes, and reads return zeros.
    Zero,
    /// `/dev/full`: has no space left for writes, and reads return zeros.
    Full,
    /// `/dev/random` and `/dev/urandom`: accept all writes, and reads return random bytes.
    Random,
}

/// A virtual directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directory {
    /// `/dev`
    Devices,
    /// `/dev/fd`
    Descriptors,
}

/// A file at or below `/dev`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    Directory(Directory),
    Device(Device),
    /// A descriptor of the guest, which may not be open.
    Descriptor(i32),
}

/// The reason why a path below `/dev` cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupError {
    NotFound,
    NotADirectory,
}

/// The names in `/dev`, in the order of a listing.
pub(crate) const NAMES: [(&str, Node); 9] = [
    ("fd", Node::Directory(Directory::Descriptors)),
    ("full", Node::Device(Device::Full)),
    ("null", Node::Device(Device::Null)),
    ("random", Node::Device(Device::Random)),
    ("stderr", Node::Descriptor(2)),
    ("stdin", Node::Descriptor(0)),
    ("stdout", Node::Descriptor(1)),
    ("urandom", Node::Device(Device::Random)),
    ("zero", Node::Device(Device::Zero)),
];

impl Device {
    /// Fills a buffer and returns the number of bytes read.
    pub(crate) fn read(self, into: &mut [u8]) -> usize {
        match self {
            Self::Null => return 0,
            Self::Zero | Self::Full => into.fill(0),
            Self::Random => rand::rng().fill_bytes(into),
        }
        into.len()
    }

    /// Returns a number that identifies the device.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Null => 3,
            Self::Zero => 5,
            Self::Full => 7,
            Self::Random => 9,
        }
    }
}

/// Resolves a path relative to a virtual directory.
///
/// # Errors
/// [`LookupError`], also for a path that leaves `/dev`.
pub(crate) fn lookup(start: Directory, path: &str) -> Result<Node, LookupError> {
    let mut node = Node::Directory(start);
    for component in path.split('/') {
        let Node::Directory(directory) = node else { return Err(LookupError::NotADirectory) };
        node = match (directory, component) {
            (_, "" | ".") => node,
            (Directory::Devices, "..") => return Err(LookupError::NotFound),
            (Directory::Descriptors, "..") => Node::Directory(Directory::Devices),
            (Directory::Devices, name) => {
                NAMES.iter().find(|(known, _)| *known == name).ok_or(LookupError::NotFound)?.1
            }
            (Directory::Descriptors, number) => Node::Descriptor(descriptor(number)?),
        };
    }
    Ok(node)
}

/// Parses a descriptor's number, which has no sign and no leading zero.
fn descriptor(text: &str) -> Result<i32, LookupError> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if canonical { text.parse().map_err(|_| LookupError::NotFound) } else { Err(LookupError::NotFound) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str) -> Result<Node, LookupError> {
        lookup(Directory::Devices, path)
    }

    #[test]
    fn finds_devices_and_descriptors() {
        assert_eq!(node(""), Ok(Node::Directory(Directory::Devices)));
        assert_eq!(node("null"), Ok(Node::Device(Device::Null)));
        assert_eq!(node("./fd/..//urandom"), Ok(Node::Device(Device::Random)));
        assert_eq!(node("fd/"), Ok(Node::Directory(Directory::Descriptors)));
        assert_eq!(node("fd/12"), Ok(Node::Descriptor(12)));
        assert_eq!(node("stdin"), Ok(Node::Descriptor(0)));
        assert_eq!(lookup(Directory::Descriptors, "../null"), Ok(Node::Device(Device::Null)));
    }

    #[test]
    fn rejects_other_paths() {
        for path in
            ["nul", "sda", "tty", "fd/-1", "fd/+1", "fd/01", "fd/99999999999", "..", "fd/../..", "fd/../../dev/null"]
        {
            assert_eq!(node(path), Err(LookupError::NotFound), "{path}");
        }
        for path in ["null/", "null/x", "null/..", "fd/1/", "fd/1/../null", "stdin/.."] {
            assert_eq!(node(path), Err(LookupError::NotADirectory), "{path}");
        }
    }

    #[test]
    fn reads_bytes_by_device_kind() {
        let mut buffer = [1u8; 64];
        assert_eq!(Device::Null.read(&mut buffer), 0);
        assert_eq!(Device::Zero.read(&mut buffer), 64);
        assert_eq!(buffer, [0; 64]);
        assert_eq!(Device::Random.read(&mut buffer), 64);
        assert_ne!(buffer, [0; 64]);
    }
}
