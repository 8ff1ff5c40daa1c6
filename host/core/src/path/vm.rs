use super::kind::{MappedPath, PathError, posix_path, sealed};

posix_path! {
    /// A path inside the virtual machine that stands between the host and a container.
    VmPath, "vm"
}
