//! Checkpoints with another memory image.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;

use codebox_files::Dir;

use super::pages::{PAGE_SIZE, PageReader};
use super::state::{Restored, write};
use crate::error::WasmError;

/// Capacity of the buffer of the file in bytes.
const BUFFER: usize = 1 << 20;

/// A memory image, as the base of a checkpoint.
pub(crate) struct Base<'a> {
    pub name: &'a str,
    pub sha256: &'a str,
    pub bytes: &'a [u8],
}

/// Writes the memory of a checkpoint, which extends the image `from`, to another directory, with the pages that differ from the image
/// `base`, and beyond that image from zeros.
///
/// # Errors
/// [`WasmError::Io`] if a file cannot be read or written.
pub(crate) fn rebase(checkpoint: Restored, from: &[u8], base: &Base<'_>, to: &Dir) -> Result<(), WasmError> {
    let Restored { state, size, pages } = checkpoint;
    let written = write(to, |file| {
        let mut memory = SavedMemory { pages: pages.reader(), image: from, page: [0; PAGE_SIZE] };
        let differing = write_differing(&mut memory, size, base.bytes, file)?;
        Ok(state.with_pages(base.name, base.sha256, &differing))
    });
    written.map(|_| ())
}

/// Writes the differing pages, and returns their ranges.
fn write_differing(
    memory: &mut SavedMemory<'_>,
    size: usize,
    base: &[u8],
    file: &File,
) -> io::Result<Vec<Range<usize>>> {
    let mut writer = BufWriter::with_capacity(BUFFER, file);
    let mut differing: Vec<Range<usize>> = Vec::new();
    for at in (0..size).step_by(PAGE_SIZE) {
        let page = memory.page(at)?;
        if page == page_of(base, at) {
            continue;
        }
        writer.write_all(page)?;
        match differing.last_mut() {
            Some(last) if last.end == at => last.end = at + PAGE_SIZE,
            _ => differing.push(at..at + PAGE_SIZE),
        }
    }
    writer.flush()?;
    Ok(differing)
}

/// The memory of a checkpoint, read from its start to its end.
struct SavedMemory<'a> {
    pages: PageReader<'a>,
    image: &'a [u8],
    page: [u8; PAGE_SIZE],
}

impl SavedMemory<'_> {
    /// Returns the next page, which is at this address.
    fn page(&mut self, at: usize) -> io::Result<&[u8]> {
        Ok(match self.pages.read(at, &mut self.page)? {
            true => &self.page,
            false => page_of(self.image, at),
        })
    }
}

/// Returns a page of an image, or zeros beyond its end.
fn page_of(image: &[u8], at: usize) -> &[u8] {
    image.get(at..at + PAGE_SIZE).unwrap_or(&[0; PAGE_SIZE])
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use cap_std::ambient_authority;
    use std::fs;

    use super::*;
    use crate::checkpoint::state::{Expected, State, read};

    const SIZE: usize = 2 * 65_536;

    fn expected(image: &str, image_size: usize) -> Expected<'_> {
        Expected { runtime: "python-1", image, image_sha256: image, image_size, globals: &[], parts: 0 }
    }

    /// Returns the memory that a checkpoint describes.
    fn memory_of(checkpoint: &Restored, image: &[u8]) -> Result<Vec<u8>> {
        let mut memory = image.to_vec();
        memory.resize(checkpoint.size, 0);
        let mut pages = checkpoint.pages.reader();
        let mut page = [0; PAGE_SIZE];
        for at in (0..checkpoint.size).step_by(PAGE_SIZE) {
            if pages.read(at, &mut page)? {
                memory[at..at + PAGE_SIZE].copy_from_slice(&page);
            }
        }
        Ok(memory)
    }

    #[test]
    fn the_memory_is_the_same_with_another_image() -> Result<()> {
        let home = tempfile::tempdir()?;
        let open = |name: &str| -> Result<Dir> {
            fs::create_dir(home.path().join(name))?;
            Ok(Dir::open_ambient_dir(home.path().join(name), ambient_authority())?)
        };
        let (one, other) = (open("one")?, open("other")?);
        // The image has ones and then twos; the guest has changed two pages, one of them to zeros, and grown its memory.
        let image = [[1; 32_768], [2; 32_768]].concat();
        let ranges = [4096..8192, 40_960..45_056, 65_536 + 4096..65_536 + 8192];
        write(&one, |mut file| {
            [[7; 4096], [0; 4096], [8; 4096]].iter().try_for_each(|page| file.write_all(page))?;
            Ok(State::new(&expected("one", image.len()), SIZE, &ranges))
        })?;
        let before = memory_of(&read(&one, &expected("one", image.len()))?, &image)?;
        // Of the other image, one page has the content that the guest gave it.
        let mut base = vec![1; 65_536];
        base[4096..8192].fill(7);
        let to = Base { name: "other", sha256: "other", bytes: &base };
        rebase(read(&one, &expected("one", image.len()))?, &image, &to, &other)?;
        let after = read(&other, &expected("other", base.len()))?;
        let expected = [32_768..65_536, 65_536 + 4096..65_536 + 8192];
        assert!(after.pages.files().eq([&expected[..]]));
        assert!(memory_of(&after, &base)? == before);
        Ok(())
    }
}
