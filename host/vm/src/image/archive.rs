//! Images as single files, which can be copied to machines that cannot make one.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header, HeaderMode};

use super::{ImageError, MANIFEST, VmImage};

/// Maximum length of the list of files in bytes.
const MAX_MANIFEST: u64 = 1 << 20;

/// Maximum length of a file in bytes.
const MAX_FILE: u64 = 16 << 30;

impl VmImage {
    /// Packs the files that the image was opened with into a compressed archive. Holes of files take no space.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or the archive cannot be written.
    pub fn pack(&self, to: &Path) -> Result<(), ImageError> {
        let failed = |source| ImageError::Write { path: to.to_owned(), source };
        let manifest = self.manifest.to_json(&self.dir.join(MANIFEST))?;
        let write = || -> io::Result<()> {
            let output = GzEncoder::new(BufWriter::new(File::create(to)?), Compression::default());
            let mut archive = Builder::new(output);
            archive.sparse(true);
            archive.mode(HeaderMode::Deterministic);
            let mut header = Header::new_gnu();
            header.set_size(manifest.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, MANIFEST, &manifest[..])?;
            for name in self.manifest.files.keys() {
                archive.append_path_with_name(self.file(name), name)?;
            }
            archive.into_inner()?.finish()?.flush()
        };
        write().map_err(failed)
    }

    /// Unpacks an archive into an empty directory, and checks the content of the files with these names. Other files are refused.
    ///
    /// # Errors
    /// Returns an error if the archive is not an image of this version, or a file is damaged or cannot be written.
    pub fn unpack(archive: &Path, dir: &Path, names: &[&str]) -> Result<Self, ImageError> {
        let invalid = |reason: String| ImageError::Archive { path: archive.to_owned(), reason };
        let file = File::open(archive).map_err(|source| ImageError::Read { path: archive.to_owned(), source })?;
        let mut packed = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
        let entries = packed.entries().map_err(|error| invalid(error.to_string()))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| invalid(error.to_string()))?;
            let name = entry.path().ok().and_then(|path| path.to_str().map(str::to_owned));
            let name = name.ok_or_else(|| invalid("a name is not UTF-8".to_owned()))?;
            let is_file = matches!(entry.header().entry_type(), EntryType::Regular | EntryType::GNUSparse);
            let max = if name == MANIFEST { MAX_MANIFEST } else { MAX_FILE };
            if !is_file || entry.size() > max || !(name == MANIFEST || names.contains(&name.as_str())) {
                return Err(invalid(format!("{name:?} is not a file of an image")));
            }
            let path = dir.join(&name);
            if fs::symlink_metadata(&path).is_ok() {
                return Err(invalid(format!("{name:?} occurs twice")));
            }
            // Holes are kept.
            entry.unpack(&path).map_err(|source| match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem => ImageError::Write { path, source },
                _ => invalid(format!("{name} is damaged or incomplete")),
            })?;
        }
        let image = Self::open(dir, names)?;
        image.verify()?;
        Ok(image)
    }

    /// Unpacks an archive, and puts the files in place of those of an earlier image in the directory. Other files in it are kept.
    ///
    /// # Errors
    /// As for [`unpack`](Self::unpack). An earlier image is kept then, unless a file cannot be moved.
    pub fn install(archive: &Path, dir: &Path, names: &[&str]) -> Result<(), ImageError> {
        let failed = |source| ImageError::Write { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        // In the directory, so that it is on the same file system, and each file is moved at once.
        let new = tempfile::Builder::new().prefix(".image-").tempdir_in(dir).map_err(failed)?;
        Self::unpack(archive, new.path(), names)?;
        // The list comes last: without it, there is no image.
        crate::files::remove(&dir.join(MANIFEST)).map_err(failed)?;
        let all = names.iter().copied().chain([MANIFEST]);
        all.into_iter().try_for_each(|name| fs::rename(new.path().join(name), dir.join(name))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = [VmImage::KERNEL, VmImage::ROOT];

    fn image(dir: &Path) -> VmImage {
        for name in VmImage::ALL {
            fs::write(dir.join(name), name).expect("it is ours");
        }
        let root = File::options().write(true).open(dir.join(VmImage::ROOT)).expect("a file");
        root.set_len(64 << 20).expect("a length");
        VmImage::seal(dir).expect("an image");
        VmImage::open(dir, &NAMES).expect("it has all files")
    }

    #[cfg(unix)]
    #[test]
    fn images_are_unpacked_as_they_were_packed() {
        use std::os::unix::fs::MetadataExt as _;
        let (from, to, file) = (tempfile::tempdir(), tempfile::tempdir(), tempfile::NamedTempFile::new());
        let (from, to, file) = (from.expect("a directory"), to.expect("a directory"), file.expect("a file"));
        image(from.path()).pack(file.path()).expect("it is packed");
        let unpacked = VmImage::unpack(file.path(), to.path(), &NAMES).expect("it is intact");
        let root = fs::metadata(unpacked.file(VmImage::ROOT)).expect("facts");
        assert!(root.len() == 64 << 20 && root.blocks() < 64, "{} blocks", root.blocks());
        assert!(!to.path().join(VmImage::ARCHIVE).exists(), "it was not opened with that");
        // The second one would replace its files.
        assert!(VmImage::unpack(file.path(), to.path(), &NAMES).is_err());
        fs::write(to.path().join("other.txt"), "kept").expect("it is ours");
        fs::write(to.path().join(VmImage::KERNEL), "earlier").expect("it is ours");
        VmImage::install(file.path(), to.path(), &NAMES).expect("it replaces its files");
        assert_eq!(fs::read_to_string(to.path().join("other.txt")).expect("it is there"), "kept");
        VmImage::open(to.path(), &NAMES).expect("it has all files").verify().expect("it is intact");
        let count = fs::read_dir(to.path()).expect("a directory").count();
        assert_eq!(count, 4, "the kernel, the root file system, the list and the other file");
    }

    #[test]
    fn hostile_and_damaged_archives_are_refused() {
        let from = tempfile::tempdir().expect("a directory");
        image(from.path());
        let manifest = fs::read(from.path().join(MANIFEST)).expect("a list");
        let with = |entries: &[(&str, EntryType, &[u8])]| {
            let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            for (name, kind, content) in entries {
                let mut header = Header::new_gnu();
                header.set_entry_type(*kind);
                header.set_size(content.len() as u64);
                // The library refuses to write such names itself.
                let field = &mut header.as_gnu_mut().expect("a header of GNU").name;
                field[..name.len()].copy_from_slice(name.as_bytes());
                header.set_cksum();
                archive.append(&header, *content).expect("it is in memory");
            }
            archive.into_inner().and_then(GzEncoder::finish).expect("it is in memory")
        };
        let mut cut = with(&[("root.img", EntryType::Regular, &[7; 4096])]);
        cut.truncate(cut.len() / 2);
        let file = EntryType::Regular;
        let list = (MANIFEST, file, &manifest[..]);
        for (bytes, expected) in [
            (b"not an archive".to_vec(), "invalid gzip header"),
            (cut, "root.img is damaged or incomplete"),
            (with(&[("../escaped", file, b"x")]), "\"../escaped\" is not a file of an image"),
            (with(&[("/etc/x", file, b"x")]), "is not a file of an image"),
            (with(&[("vmlinuz", EntryType::Symlink, b"")]), "\"vmlinuz\" is not a file of an image"),
            (with(&[("vmlinuz", file, b"x"), ("vmlinuz", file, b"y")]), "\"vmlinuz\" occurs twice"),
            (with(&[("vmlinuz", file, b"vmlinuz"), list]), "cannot read"),
            (with(&[("vmlinuz", file, b"other"), ("root.img", file, b"x"), list]), "is damaged"),
        ] {
            let (dir, archive) = (tempfile::tempdir().expect("a directory"), from.path().join("archive"));
            fs::write(&archive, bytes).expect("it is ours");
            let error = VmImage::unpack(&archive, dir.path(), &NAMES).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error} instead of {expected}");
        }
        assert!(!from.path().join("../escaped").exists());
    }
}
