//! Wheel of an installation, for `pip install codebox` and `uvx codebox`.
//!
//! The format is that of the binary distribution format specification of the Python packaging user guide. Scripts and data of a
//! wheel are installed into `bin` and the prefix of the environment, so the programs find the runtimes there.

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{Release, archive, templates};

/// Writes the wheel.
pub(super) fn write(release: &Release<'_>) -> Result<()> {
    let base = format!("codebox-{}", release.version);
    // The programs need no C library of the system.
    let arch = release.target.wheel;
    let platforms =
        [format!("manylinux_2_17_{arch}"), format!("manylinux2014_{arch}"), format!("musllinux_1_1_{arch}")];
    let file = archive::create(release, &format!("{base}-py3-none-{}.whl", platforms.join(".")))?;
    let mut wheel = Wheel { zip: ZipWriter::new(file), record: String::new(), fast: release.fast };
    for file in release.tree.files() {
        let path = match file.path.strip_prefix("bin/") {
            Some(name) => format!("{base}.data/scripts/{name}"),
            None => format!("{base}.data/data/{}", file.path),
        };
        let source = File::open(&file.source).with_context(|| format!("open {}", file.source.display()))?;
        wheel.add(&path, file.mode(), source)?;
    }
    let info = format!("{base}.dist-info");
    let tags: String = platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let about = format!("Wheel-Version: 1.0\nGenerator: codebox\nRoot-Is-Purelib: false\n{tags}");
    wheel.add(&format!("{info}/METADATA"), 0o644, metadata(release)?.as_bytes())?;
    wheel.add(&format!("{info}/WHEEL"), 0o644, about.as_bytes())?;
    wheel.add(&format!("{info}/licenses/LICENSE"), 0o644, &*release.tree.document("LICENSE")?)?;
    wheel.finish(&format!("{info}/RECORD"))
}

fn metadata(release: &Release<'_>) -> Result<String> {
    let readme = release.tree.document("README.md")?;
    Ok(format!(
        "Metadata-Version: 2.4\nName: codebox\nVersion: {}\nSummary: {}\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}",
        release.version,
        templates::summary(release)?,
        String::from_utf8(readme)?
    ))
}

/// A wheel that is being written.
struct Wheel {
    zip: ZipWriter<File>,
    /// Lines of all files with digest and size.
    record: String,
    fast: bool,
}

impl Wheel {
    fn add(&mut self, path: &str, mode: u32, mut content: impl Read) -> Result<()> {
        self.start(path, mode)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        let mut size = 0;
        loop {
            match content.read(&mut buffer)? {
                0 => break,
                count => {
                    hasher.update(&buffer[..count]);
                    self.zip.write_all(&buffer[..count])?;
                    size += count;
                }
            }
        }
        let digest = URL_SAFE_NO_PAD.encode(hasher.finalize());
        self.record.push_str(&format!("{path},sha256={digest},{size}\n"));
        Ok(())
    }

    fn start(&mut self, path: &str, mode: u32) -> io::Result<()> {
        let level = if self.fast { 1 } else { 9 };
        // The format has no time zone and begins in 1980; a fixed time is usual for reproducible wheels.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level))
            .unix_permissions(mode);
        Ok(self.zip.start_file(path, options)?)
    }

    /// Writes the list of files, which lists itself without a digest.
    fn finish(mut self, path: &str) -> Result<()> {
        self.start(path, 0o644)?;
        let record = format!("{}{path},,\n", self.record);
        self.zip.write_all(record.as_bytes())?;
        self.zip.finish()?;
        Ok(())
    }
}
