//! The disk of a virtual machine, a file that takes the space that is used.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rustix::fs::SeekFrom as Seek;
use rustix::io::Errno;

/// Size of a piece that is copied at once.
const PIECE: usize = 1 << 20;

/// Copies a sparse file with its holes, and makes it `size` bytes long. `copied` receives the number of bytes so far.
pub(super) fn create(from: &Path, to: &Path, size: u64, copied: &mut dyn FnMut(u64)) -> io::Result<()> {
    let new = to.with_extension("new");
    let written = copy(from, &new, size, copied).and_then(|()| fs::rename(&new, to));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

fn copy(from: &Path, to: &Path, size: u64, copied: &mut dyn FnMut(u64)) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::options().write(true).create(true).truncate(true).open(to)?;
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    target.set_len(size.max(source.metadata()?.len()))?;
    let (mut at, mut total) = (0, 0);
    let mut piece = vec![0; PIECE];
    loop {
        let start = match rustix::fs::seek(&source, Seek::Data(at)) {
            Ok(start) => start,
            // No data follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&source, Seek::Hole(start))?;
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        let mut left = end - start;
        while left > 0 {
            let length = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            source.read_exact(&mut piece[..length])?;
            target.write_all(&piece[..length])?;
            left -= length as u64;
            total += length as u64;
            copied(total);
        }
        at = end;
    }
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn holes_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut file = File::create(&from).expect("a file");
        file.seek(SeekFrom::Start(8 << 20)).expect("a position");
        file.write_all(b"data").expect("it is written");
        file.set_len(64 << 20).expect("a length");
        let mut last = 0;
        create(&from, &to, 128 << 20, &mut |copied| last = copied).expect("a copy");
        let facts = fs::metadata(&to).expect("facts");
        assert_eq!((facts.len(), facts.mode() & 0o777), (128 << 20, 0o600));
        assert!(facts.blocks() * 512 < 1 << 20 && last < 1 << 20, "{} bytes", facts.blocks() * 512);
        let mut text = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&File::open(&to).expect("a file"), &mut text, 8 << 20).expect("text");
        assert_eq!(&text, b"data");
        assert!(create(&dir.path().join("missing"), &to, 1, &mut |_| {}).is_err() && to.exists());
    }
}
