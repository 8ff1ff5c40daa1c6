//! The part of `goblin` that `uv-platform` names to find the C library of the host.

/// ELF files.
pub mod elf {
    use std::fmt;

    /// An ELF file.
    pub struct Elf<'a> {
        /// Path of the dynamic loader.
        pub interpreter: Option<&'a str>,
    }

    impl<'a> Elf<'a> {
        /// Always fails.
        pub fn parse(_bytes: &'a [u8]) -> Result<Self, NotParsed> {
            Err(NotParsed)
        }
    }

    /// The error of every call.
    #[derive(Debug)]
    pub struct NotParsed;

    impl fmt::Display for NotParsed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("ELF files are not parsed")
        }
    }

    impl std::error::Error for NotParsed {}
}
