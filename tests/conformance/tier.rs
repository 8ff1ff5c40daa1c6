//! What a program runs on: a runtime of ours in WebAssembly, or an operating system in a container.

/// What backends of one kind have in common, and what expectations can therefore depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Our own builds of the interpreters. No threads, processes and sockets; each limit is held exactly.
    Wasm,
    /// An image's interpreters on a kernel. What the kernel gives works; some limits are looked after and not held.
    Container,
}

impl Tier {
    pub const ALL: [Self; 2] = [Self::Wasm, Self::Container];
}

/// Why places in TypeScript given with `-c`, or from standard input, are WebAssembly's alone.
pub const UNMAPPED: &str =
    "Node maps no place in a text without a file to where it was before its types were taken out";
