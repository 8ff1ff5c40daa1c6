use super::kind::{MappedPath, PathError, posix_path, sealed};

posix_path! {
    /// Path inside the virtual machine between the host and a container.
    VmPath, "vm"
}
