//! Archives of an installation.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::Release;
use super::tree::TreeFile;

/// Writes `NAME.tar.zst`.
pub(super) fn write_zst(release: &Release<'_>) -> Result<()> {
    let name = name(release);
    let output = zstd(create(release, &format!("{name}.tar.zst"))?, release)?;
    write_tree(release, output, &format!("{name}/"))?.finish()?;
    Ok(())
}

/// Writes `NAME.tar.gz`.
pub(super) fn write_gz(release: &Release<'_>) -> Result<()> {
    let name = name(release);
    let output = gzip(create(release, &format!("{name}.tar.gz"))?, release);
    write_tree(release, output, &format!("{name}/"))?.finish()?;
    Ok(())
}

/// Returns the name of an archive without its extension, which is that of the directory in it.
pub(super) fn name(release: &Release<'_>) -> String {
    format!("codebox-{}-{}", release.version, release.target.name)
}

/// Creates a file among the packages.
pub(super) fn create(release: &Release<'_>, name: &str) -> Result<File> {
    let path = release.into.join(name);
    File::create(&path).with_context(|| format!("create {}", path.display()))
}

pub(super) fn zstd<W: Write>(output: W, release: &Release<'_>) -> Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(output, if release.fast { 1 } else { 19 })?;
    encoder.include_checksum(true)?;
    if !release.fast {
        // Code of two levels is similar and some hundred megabytes apart.
        encoder.long_distance_matching(true)?;
    }
    Ok(encoder)
}

pub(super) fn gzip<W: Write>(output: W, release: &Release<'_>) -> GzEncoder<W> {
    GzEncoder::new(output, if release.fast { Compression::fast() } else { Compression::best() })
}

/// Writes a tar archive of all files, with a prefix before their paths, and returns the output.
pub(super) fn write_tree<W: Write>(release: &Release<'_>, output: W, prefix: &str) -> Result<W> {
    let mut archive = TarWriter::new(output, release.epoch);
    append_tree(&mut archive, release, prefix)?;
    archive.finish()
}

/// Adds all files and their directories to an archive, with a prefix before their paths.
pub(super) fn append_tree<W: Write>(archive: &mut TarWriter<W>, release: &Release<'_>, prefix: &str) -> Result<()> {
    let parents = prefix.match_indices('/').map(|(end, _)| prefix[..=end].to_owned());
    let dirs = release.tree.dirs().into_iter().map(|dir| format!("{prefix}{dir}/"));
    parents.chain(dirs).filter(|dir| dir != "./").try_for_each(|dir| archive.dir(&dir))?;
    release.tree.files().iter().try_for_each(|file| archive.file(&format!("{prefix}{}", file.path), file))
}

/// Writer of a tar archive whose content depends on nothing but the files.
pub(super) struct TarWriter<W: Write> {
    builder: tar::Builder<W>,
    epoch: u64,
}

impl<W: Write> TarWriter<W> {
    pub(super) fn new(output: W, epoch: u64) -> Self {
        Self { builder: tar::Builder::new(output), epoch }
    }

    pub(super) fn file(&mut self, path: &str, file: &TreeFile) -> Result<()> {
        let source = File::open(&file.source).with_context(|| format!("open {}", file.source.display()))?;
        let mut header = self.header(file.size, file.mode(), tar::EntryType::Regular);
        Ok(self.builder.append_data(&mut header, path, source)?)
    }

    pub(super) fn bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = self.header(bytes.len() as u64, mode, tar::EntryType::Regular);
        Ok(self.builder.append_data(&mut header, path, bytes)?)
    }

    pub(super) fn dir(&mut self, path: &str) -> Result<()> {
        let mut header = self.header(0, 0o755, tar::EntryType::Directory);
        Ok(self.builder.append_data(&mut header, path, &[][..])?)
    }

    /// Ends the archive and returns the output.
    pub(super) fn finish(self) -> Result<W> {
        Ok(self.builder.into_inner()?)
    }

    fn header(&self, size: u64, mode: u32, kind: tar::EntryType) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(mode);
        header.set_mtime(self.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header
    }
}
