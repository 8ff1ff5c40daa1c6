//! Debian package of an installation, below `/usr`.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

use super::archive::{TarWriter, create, gzip, write_tree, zstd};
use super::{Release, templates};

/// Writes the package: an `ar` archive of the version of the format, the description and the files, in this order.
pub(super) fn write(release: &Release<'_>) -> Result<()> {
    let mut files = tempfile::tempfile_in(release.into)?;
    let compressed = zstd(&files, release)?;
    write_tree(release, compressed, "./usr/")?.finish()?;
    let control = control(release)?;

    let mut package =
        ar::Builder::new(create(release, &format!("codebox_{}_{}.deb", release.version, release.target.debian))?);
    let header = |name: &str, size: u64| {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), size);
        header.set_mode(0o100_644);
        header.set_mtime(release.epoch);
        header
    };
    package.append(&header("debian-binary", 4), &b"2.0\n"[..])?;
    package.append(&header("control.tar.gz", control.len() as u64), &*control)?;
    let size = files.metadata()?.len();
    std::io::Seek::rewind(&mut files)?;
    package.append(&header("data.tar.zst", size), files)?;
    Ok(())
}

/// Returns the archive with the description of the package and the digests of its files.
fn control(release: &Release<'_>) -> Result<Vec<u8>> {
    let size: u64 = release.tree.files().iter().map(|file| file.size).sum();
    let about = format!(
        "Package: codebox\nVersion: {}\nArchitecture: {}\nMaintainer: The codebox developers <codebox@localhost>\n\
         Installed-Size: {}\nSection: utils\nPriority: optional\nSuggests: podman | docker.io\nDescription: {}\n \
         Runs Python, JavaScript and TypeScript inside WebAssembly, with the directories and powers\n \
         that it was granted, or in a container of Podman or Docker.\n",
        release.version,
        release.target.debian,
        size.div_ceil(1024),
        templates::summary(release)?
    );
    let mut archive = TarWriter::new(gzip(Vec::new(), release), release.epoch);
    archive.bytes("./control", 0o644, about.as_bytes())?;
    archive.bytes("./md5sums", 0o644, md5sums(release)?.as_bytes())?;
    Ok(archive.finish()?.finish()?)
}

/// Returns the digests of all files, which `dpkg --verify` checks.
fn md5sums(release: &Release<'_>) -> Result<String> {
    let mut lines = String::new();
    for file in release.tree.files() {
        let mut source = File::open(&file.source).with_context(|| format!("open {}", file.source.display()))?;
        let mut context = md5::Context::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match source.read(&mut buffer)? {
                0 => break,
                count => context.consume(&buffer[..count]),
            }
        }
        lines.push_str(&format!("{:x}  usr/{}\n", context.finalize(), file.path));
    }
    Ok(lines)
}
