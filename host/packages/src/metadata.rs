//! Reading of a wheel's METADATA.

use std::io::{self, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_zip::base::read::seek::ZipFileReader;
use futures_util::io::{AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _, BufReader, SeekFrom};

use crate::disk;

/// Maximum size of a METADATA in bytes: many times the longest known.
pub(crate) const MAX_METADATA_SIZE: u64 = 1 << 20;

/// Maximum number of bytes read from a remote archive: its directory and one member. The longest known directories,
/// with 20,000 members, have 2 MiB.
const MAX_REMOTE_READ: u64 = 4 << 20;

/// Bytes at the end of an archive that are checked for its last record: more than the 67,474 bytes that the reader
/// searches, and the preceding locator.
const TAIL_SIZE: u64 = 72 << 10;

/// Size in bytes of the reads of a member.
const READ_BUFFER_SIZE: usize = 64 << 10;

/// Maximum size in bytes of a read before the task yields. Parsing a dense directory is slow for its size: it takes up
/// to half a second for this many bytes.
const MAX_POLL_SIZE: usize = 256 << 10;

/// Returns true if a member is the METADATA of the wheel itself. Bundled packages have theirs in subdirectories.
fn is_wheel_metadata(member: &str) -> bool {
    member.strip_suffix(".dist-info/METADATA").is_some_and(|stem| !stem.contains('/'))
}

/// Reads the METADATA of the wheel in a file, up to [`MAX_METADATA_SIZE`] + 1 bytes. Returns `None` if the file is not a valid
/// wheel.
pub(crate) fn in_file(wheel: &Path) -> Option<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(disk::open(wheel).ok()?)).ok()?;
    let name = archive.file_names().find(|name| is_wheel_metadata(name))?.to_owned();
    let mut text = Vec::new();
    archive.by_name(&name).ok()?.take(MAX_METADATA_SIZE + 1).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Reads the METADATA of a remote wheel of `length` bytes, up to [`MAX_METADATA_SIZE`] + 1 bytes, without downloading the whole
/// wheel.
///
/// Returns `None` on any error; the METADATA may still be readable from the whole wheel.
pub(crate) async fn in_remote_file<R: AsyncRead + AsyncSeek + Unpin>(wheel: R, length: u64) -> Option<Vec<u8>> {
    let mut wheel = YieldingReader { wheel, remaining: MAX_REMOTE_READ, has_yielded: true };
    let mut tail = vec![0; usize::try_from(length.min(TAIL_SIZE)).ok()?];
    wheel.seek(SeekFrom::Start(length.saturating_sub(TAIL_SIZE))).await.ok()?;
    wheel.read_exact(&mut tail).await.ok()?;
    // Zip64 is rejected, recognized by its locator right before a last record: the reader allocates memory for the
    // declared number of members, which can exceed 65,535 only in this format.
    if tail.windows(24).any(|window| window.starts_with(b"PK\x06\x07") && window.ends_with(b"PK\x05\x06")) {
        return None;
    }
    let mut archive = ZipFileReader::new(BufReader::with_capacity(READ_BUFFER_SIZE, wheel)).await.ok()?;
    let at =
        archive.file().entries().iter().position(|entry| entry.filename().as_str().is_ok_and(is_wheel_metadata))?;
    let mut text = Vec::new();
    let mut member = archive.reader_with_entry(at).await.ok()?;
    (&mut member).take(MAX_METADATA_SIZE + 1).read_to_end(&mut text).await.ok()?;
    let is_intact = text.len() as u64 > MAX_METADATA_SIZE || member.compute_hash() == member.entry().crc32();
    is_intact.then_some(text)
}

/// Reader of an archive that yields after each read, and fails after a maximum number of bytes.
struct YieldingReader<R> {
    wheel: R,
    remaining: u64,
    /// True if the task has yielded since the last read.
    has_yielded: bool,
}

impl<R: AsyncRead + Unpin> AsyncRead for YieldingReader<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let most = into.len().min(MAX_POLL_SIZE).min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        if most == 0 && !into.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        // Other tasks run here, including a deadline.
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = ready!(Pin::new(&mut self.wheel).poll_read(context, &mut into[..most]))?;
        self.remaining -= count as u64;
        self.has_yielded = false;
        Poll::Ready(Ok(count))
    }
}

impl<R: AsyncSeek + Unpin> AsyncSeek for YieldingReader<R> {
    fn poll_seek(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.wheel).poll_seek(context, to)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use futures_util::io::Cursor as AsyncCursor;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    const OWN: &str = "a-1.dist-info/METADATA";

    fn archive(members: &[(&str, &str)], last: impl Fn(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (at, (name, data)) in members.iter().enumerate() {
            let method = if at % 2 == 0 { CompressionMethod::Stored } else { CompressionMethod::Deflated };
            zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).expect("a member");
            zip.write_all(data.as_bytes()).expect("its data");
        }
        last(&mut zip);
        zip.finish().expect("an archive").into_inner()
    }

    fn remote_metadata(wheel: &[u8]) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let text = runtime.block_on(in_remote_file(AsyncCursor::new(wheel), wheel.len() as u64))?;
        Some(String::from_utf8(text).expect("text"))
    }

    #[test]
    fn reads_same_metadata_from_local_and_remote_wheels() {
        let other = ("a/vendored-1.dist-info/METADATA", "another");
        for members in [&[other, (OWN, "own")][..], &[(OWN, "own"), other], &[other, ("a/x", "y"), (OWN, "own")]] {
            let wheel = archive(members, |_| ());
            assert_eq!(remote_metadata(&wheel).as_deref(), Some("own"));
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(&wheel).expect("written");
            assert_eq!(in_file(file.path()).as_deref(), Some(&b"own"[..]));
        }
        for wheel in [archive(&[other], |_| ()), Vec::new(), b"PK\x05\x06".to_vec(), vec![0; 100]] {
            assert_eq!(remote_metadata(&wheel), None);
        }
    }

    #[test]
    fn reads_at_most_one_byte_above_limit() {
        let most = MAX_METADATA_SIZE as usize;
        for (length, read) in [(most, most), (most + 1, most + 1), (most * 40, most + 1)] {
            // The member starts at an odd offset and compresses to a thousandth of its size.
            let wheel = archive(&[("a/x", ""), (OWN, &"x".repeat(length))], |_| ());
            assert_eq!(remote_metadata(&wheel).map(|text| text.len()), Some(read));
        }
    }

    #[test]
    fn rejects_zip64_and_oversized_directories() {
        let sixty_four = |zip: &mut ZipWriter<_>| zip.set_raw_zip64_extensible_data_sector(Box::new([7; 8]));
        let small = archive(&[(OWN, "own")], sixty_four);
        assert_eq!(remote_metadata(&small), None);
        // Offsets of the last record from the end, up to the limit of the reader's search and beyond it.
        let plain = archive(&[(OWN, "own")], |_| ());
        assert_eq!(remote_metadata(&[&plain[..], &[0; 67_000]].concat()).as_deref(), Some("own"));
        for behind in (60_000..70_000).step_by(10) {
            assert_eq!(remote_metadata(&[&small[..], &vec![0; behind]].concat()), None, "{behind}");
        }
        let long = "x".repeat(60_000);
        let names: Vec<String> = (0..100).map(|n| format!("{long}{n}")).collect();
        let mut members: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        members.push((OWN, "own"));
        assert_eq!(remote_metadata(&archive(&members, |_| ())), None);
        assert_eq!(remote_metadata(&archive(&members[80..], |_| ())).as_deref(), Some("own"));
    }

    #[test]
    fn detects_corrupt_metadata() {
        let mut wheel = archive(&[(OWN, "own words")], |_| ());
        let at = wheel.windows(9).position(|window| window == b"own words").expect("stored");
        wheel[at] = b'O';
        assert_eq!(remote_metadata(&wheel), None);
    }
}
