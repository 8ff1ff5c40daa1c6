//! Compression of files that a crate embeds, in the form that `codebox_files::EmbeddedFile` reads. Build scripts include
//! this file.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Returns the length and the compressed content of a file.
pub fn compress(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new((content.len() as u64).to_le_bytes().to_vec(), Compression::best());
    encoder.write_all(content).expect("writing to a vector succeeds");
    encoder.finish().expect("writing to a vector succeeds")
}
