//! Files of pages that the states of an interpreter share.

use std::io;
use std::path::{Path, PathBuf};

use codebox_core::{PAGES_FILE, earlier_pages_file};
use codebox_files::{Dir, link_or_copy, open_last_dir};

/// Links to the files of pages of the last state of an interpreter, the oldest first, in a directory that its worker cannot access.
///
/// A checkpoint has only the pages that have changed since the one before, and its other files are linked from here: the
/// checkpoint before may be gone.
pub(super) struct PageFiles {
    dir: PathBuf,
    count: usize,
}

impl PageFiles {
    /// Creates a list without files.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, count: 0 }
    }

    /// Returns the number of files.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds the files of the checkpoint with which the interpreter starts. The next checkpoint has the pages of those that cannot be
    /// linked.
    pub(super) fn add_all(&mut self, checkpoint: &Path) {
        let Ok((own, source)) = self.open(checkpoint) else { return };
        loop {
            let linked = link_or_copy(&source, &earlier_pages_file(self.count), &own, &link(self.count));
            if let Err(error) = linked {
                if error.kind() == io::ErrorKind::NotFound
                    && link_or_copy(&source, PAGES_FILE, &own, &link(self.count)).is_ok()
                {
                    self.count += 1;
                }
                return;
            }
            self.count += 1;
        }
    }

    /// Links the first `shared` files into a checkpoint, and replaces the others by its own file.
    ///
    /// # Errors
    /// The system's error, or one for a number that is too high. The list then has the files that can still be shared.
    pub(super) fn complete(&mut self, checkpoint: &Path, shared: usize) -> io::Result<()> {
        if shared > self.count {
            return Err(io::Error::other("it shares more files than there are"));
        }
        let (own, created) = self.open(checkpoint)?;
        for number in shared..self.count {
            own.remove_file(link(number))?;
        }
        self.count = shared;
        for number in 0..shared {
            link_or_copy(&own, &link(number), &created, &earlier_pages_file(number))?;
        }
        link_or_copy(&created, PAGES_FILE, &own, &link(shared))?;
        self.count = shared + 1;
        Ok(())
    }

    fn open(&self, checkpoint: &Path) -> io::Result<(Dir, Dir)> {
        Ok((open_last_dir(&self.dir)?, open_last_dir(checkpoint)?))
    }
}

/// Returns the name of a link.
fn link(number: usize) -> String {
    format!("pages-{number}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Result;

    use super::*;

    fn contents(dir: &Path) -> Result<Vec<(String, String)>> {
        let entries = fs::read_dir(dir)?.map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?))
        });
        let mut contents = entries.collect::<Result<Vec<_>>>()?;
        contents.sort();
        Ok(contents)
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    /// Makes checkpoints that share more and fewer files, removes each before the next one, and starts again from the last.
    #[test]
    fn files_are_shared_after_their_checkpoint_is_gone() -> Result<()> {
        let home = tempfile::tempdir()?;
        let (links, checkpoint) = (home.path().join("links"), home.path().join("checkpoint"));
        fs::create_dir(&links)?;
        let mut files = PageFiles::new(links.clone());
        let mut make = |text: &str, shared: usize| -> Result<Vec<(String, String)>> {
            let _ = fs::remove_dir_all(&checkpoint);
            fs::create_dir(&checkpoint)?;
            fs::write(checkpoint.join(PAGES_FILE), text)?;
            files.complete(&checkpoint, shared)?;
            assert_eq!(files.count(), shared + 1);
            contents(&checkpoint)
        };
        assert_eq!(make("one", 0)?, pairs(&[("pages.bin", "one")]));
        assert_eq!(make("two", 1)?, pairs(&[("pages.0.bin", "one"), ("pages.bin", "two")]));
        let three = [("pages.0.bin", "one"), ("pages.1.bin", "two"), ("pages.bin", "three")];
        assert_eq!(make("three", 2)?, pairs(&three));
        assert_eq!(make("four", 1)?, pairs(&[("pages.0.bin", "one"), ("pages.bin", "four")]));
        let error = make("five", 3).expect_err("there are two");
        assert!(error.to_string().contains("shares more files than there are"), "{error}");
        assert_eq!(make("six", 2)?, pairs(&[("pages.0.bin", "one"), ("pages.1.bin", "four"), ("pages.bin", "six")]));
        assert_eq!(contents(&links)?, pairs(&[("pages-0", "one"), ("pages-1", "four"), ("pages-2", "six")]));

        let other = home.path().join("other");
        fs::create_dir(&other)?;
        let mut files = PageFiles::new(other.clone());
        files.add_all(&checkpoint);
        assert_eq!(files.count(), 3);
        assert_eq!(contents(&other)?, contents(&links)?);
        Ok(())
    }

    /// A worker that was taken over puts a link in place of its file.
    #[test]
    fn links_are_not_followed() -> Result<()> {
        let home = tempfile::tempdir()?;
        let [links, checkpoint] = ["links", "checkpoint"].map(|name| home.path().join(name));
        [&links, &checkpoint].into_iter().try_for_each(fs::create_dir)?;
        fs::write(home.path().join("secret"), "secret")?;
        std::os::unix::fs::symlink(home.path().join("secret"), checkpoint.join(PAGES_FILE))?;
        let mut files = PageFiles::new(links.clone());
        assert!(files.complete(&checkpoint, 0).is_err());
        files.add_all(&checkpoint);
        assert_eq!(files.count(), 0);
        assert_eq!(contents(&links)?, []);
        Ok(())
    }
}
