//! Files that a build embeds compressed.

use std::io::{self, Read as _};

use flate2::read::DeflateDecoder;

/// Number of bytes of the length before the compressed content.
const HEADER_LEN: usize = size_of::<u64>();

/// File that is embedded in the program: the length of its content as 8 bytes, little-endian, and the content as
/// DEFLATE data. An empty slice stands for a file that this build does not have.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedFile<'a>(&'a [u8]);

impl<'a> EmbeddedFile<'a> {
    /// Creates an embedded file from the bytes that the build script has written.
    #[must_use]
    pub const fn new(embedded: &'a [u8]) -> Self {
        Self(embedded)
    }

    /// Returns true if this build does not have the file.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the length of the content, in bytes.
    #[must_use]
    pub fn content_len(&self) -> u64 {
        self.0.first_chunk::<HEADER_LEN>().map_or(0, |header| u64::from_le_bytes(*header))
    }

    /// Decompresses the content.
    ///
    /// # Errors
    /// Returns an error if the embedded data is damaged.
    pub fn content(&self) -> io::Result<Vec<u8>> {
        let (len, compressed) = (self.content_len(), self.0.get(HEADER_LEN..).unwrap_or_default());
        let mut content = Vec::with_capacity(usize::try_from(len).map_err(io::Error::other)?);
        DeflateDecoder::new(compressed).take(len + 1).read_to_end(&mut content)?;
        match content.len() as u64 == len {
            true => Ok(content),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "embedded file has another length than expected")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// Embeds a file as the build scripts do.
    pub(crate) fn embed(content: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new((content.len() as u64).to_le_bytes().to_vec(), Compression::best());
        encoder.write_all(content).expect("writing to a vector succeeds");
        encoder.finish().expect("writing to a vector succeeds")
    }

    #[test]
    fn content_is_restored() {
        for content in [&b""[..], b"text", &[7; 100_000]] {
            let embedded = embed(content);
            let file = EmbeddedFile::new(&embedded);
            assert_eq!(file.content_len(), content.len() as u64);
            assert_eq!(file.content().expect("it is intact"), content);
        }
        assert!(EmbeddedFile::new(&[]).is_absent());
    }

    #[test]
    fn damaged_data_is_an_error() {
        let embedded = embed(b"some text, some text, some text");
        let mut longer = embedded.clone();
        longer[0] += 1;
        for damaged in [&embedded[..embedded.len() - 4], &longer] {
            assert!(EmbeddedFile::new(damaged).content().is_err());
        }
    }
}
