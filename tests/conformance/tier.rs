//! Environment of a program: a codebox runtime in WebAssembly, or an operating system in a container.

/// Kind of backends with common properties, on which expectations can depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// codebox's own builds of the interpreters. No threads, processes and sockets; each limit is enforced exactly.
    Wasm,
    /// An image's interpreters on a kernel. Features of the kernel work; some limits are only approximate.
    Container,
}

impl Tier {
    pub const ALL: [Self; 2] = [Self::Wasm, Self::Container];
}

/// Reason why positions in TypeScript from `-c` or standard input are tested only in WebAssembly.
pub const UNMAPPED_POSITIONS: &str =
    "Node does not map positions in a text without a file to the text before its types were removed";
