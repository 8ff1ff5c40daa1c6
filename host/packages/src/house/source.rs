//! Source distributions, unpacked once for building.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::Builder;

use super::{House, HouseError, tree};
use crate::disk::{self, names, size};
use crate::resolve::Index;
use crate::source::Sdist;
use crate::turns;
use crate::unpack::{UnpackLimits, tarball};
use codebox_core::Silent;

/// File beside the unpacked tree that holds the archive's file name.
pub(super) const NAMED: &str = "source.txt";

/// Lock file held during a build.
const TURN: &str = "building";

/// Directory of the unpacked tree.
const TREE: &str = "tree";

/// Maximum total size in bytes of all source distributions: a resolution considers many versions, and only one is
/// built.
const ROOM: u64 = 1 << 30;

/// An unpacked source distribution. It cannot be pruned while this value lives.
#[derive(Debug)]
pub struct Unpacked {
    /// The directory with its files. Unpacking does not run any of their code.
    pub tree: PathBuf,
    /// Lock that protects the source distribution from pruning.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
}

impl Unpacked {
    /// Acquires the build lock of the source distribution. Released when the returned file is dropped. Calls `waits`
    /// once before blocking if the lock is held elsewhere.
    ///
    /// # Errors
    /// When the lock file cannot be opened or locked.
    pub fn turn(&self, waits: &dyn Fn()) -> Result<File, HouseError> {
        let path = self.tree.with_file_name(TURN);
        let file = File::open(&path).map_err(HouseError::io("open", &path))?;
        turns::locked(file, waits).map_err(HouseError::io("lock", &path))
    }
}

impl House {
    fn source_dir(&self, sdist: &Sdist) -> PathBuf {
        self.root.join("sources").join(&sdist.0.sha256)
    }

    /// Returns a source distribution, if it is unpacked in the store under its own name and version. The name that a
    /// caller gives to a content is not trusted: an index has confirmed the content only under the stored name.
    ///
    /// # Errors
    /// When the stored files cannot be opened or locked.
    pub fn unpacked(&self, sdist: &Sdist) -> Result<Option<Unpacked>, HouseError> {
        let file = fs::read_to_string(self.source_dir(sdist).join(NAMED)).unwrap_or_default();
        if sdist.is_in(&file) { self.content(sdist) } else { Ok(None) }
    }

    /// Returns a source distribution by its content, regardless of its name.
    fn content(&self, sdist: &Sdist) -> Result<Option<Unpacked>, HouseError> {
        let place = self.source_dir(sdist);
        let held = super::held_file(&place, NAMED)?;
        Ok(held.map(|held| Unpacked { tree: place.join(TREE), held }).filter(|unpacked| unpacked.tree.is_dir()))
    }

    /// Fetches and unpacks a source distribution, if it is not in the store yet.
    ///
    /// # Errors
    /// When it cannot be fetched, or is refused by the same checks as wheels.
    pub async fn source(&self, sdist: &Sdist, index: &Index<'_>) -> Result<Unpacked, HouseError> {
        if let Some(unpacked) = self.unpacked(sdist)? {
            return Ok(unpacked);
        }
        let _turn = self.beside_others()?;
        if let Some(unpacked) = self.unpacked(sdist)? {
            return Ok(unpacked);
        }
        let file = &sdist.0.file;
        let refused = |reason: &str| HouseError::Source { file: file.clone(), reason: reason.to_owned() };
        if !file.ends_with(".tar.gz") {
            return Err(refused("only .tar.gz source distributions are supported"));
        }
        if !sdist.is_in(file) {
            return Err(refused("its file name does not match the package and version"));
        }
        let above = self.root.join("sources");
        tree::private(&above).map_err(HouseError::io("create", &above))?;
        let staged = Builder::new().prefix(".source-").tempdir_in(&above);
        let staged = staged.map_err(HouseError::io("create a directory in", &above))?;
        let archive = staged.path().join("source.tar.gz");
        index.bring_source(sdist, &archive, &Silent).await?;
        let ready = staged.path().join("ready");
        unpack(file, &archive, &ready)?;
        let place = self.source_dir(sdist);
        tree::into_place(&ready, &place).map_err(HouseError::io("write", &place))?;
        let gone = || HouseError::io("open", &place)(std::io::ErrorKind::NotFound.into());
        // The index has just confirmed that this content is the requested file, whatever other names it has.
        let unpacked = self.content(sdist)?.ok_or_else(gone)?;
        self.keep_sources_within(ROOM)?;
        Ok(unpacked)
    }

    /// Removes unused source distributions, the oldest first, until the total size is at most `room` bytes.
    fn keep_sources_within(&self, room: u64) -> Result<(), HouseError> {
        let above = self.root.join("sources");
        let mut all: Vec<(SystemTime, PathBuf, u64)> = names(&above)
            .into_iter()
            .filter_map(|name| {
                let place = above.join(name);
                let made = fs::metadata(place.join(NAMED)).and_then(|meta| meta.modified()).ok()?;
                let size = size(&place);
                Some((made, place, size))
            })
            .collect();
        all.sort();
        let mut taken: u64 = all.iter().map(|(.., size)| size).sum();
        for (_, place, size) in all {
            if taken <= room {
                break;
            }
            let free = File::open(place.join(NAMED)).ok().filter(|file| file.try_lock().is_ok());
            if free.is_some() {
                disk::remove(&place).map_err(HouseError::io("remove", &place))?;
                taken -= size;
            }
        }
        Ok(())
    }
}

/// Unpacks a verified source distribution.
fn unpack(name: &str, archive: &Path, ready: &Path) -> Result<(), HouseError> {
    tree::private(ready).map_err(HouseError::io("create", ready))?;
    let whole = ready.join(TREE);
    let open = File::open(archive).map_err(HouseError::io("open", archive))?;
    tarball::unpack(&UnpackLimits::default(), name, open, &whole)
        .map_err(|source| HouseError::Unpack { wheel: name.to_owned(), source })?;
    tree::all_shown(&whole).map_err(HouseError::io("set permissions of", &whole))?;
    let written = fs::write(ready.join(TURN), "").and_then(|()| fs::write(ready.join(NAMED), name));
    written.map_err(HouseError::io("write", ready))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::resolve::Wheel;

    #[test]
    fn the_oldest_that_nobody_holds_make_room() {
        let root = tempfile::tempdir().expect("a directory");
        let house = House::at(root.path().to_owned());
        let above = root.path().join("sources");
        for (age, name) in [(4, "held"), (1, "newest"), (3, "oldest"), (2, "older")] {
            let place = above.join(name);
            fs::create_dir_all(place.join(TREE)).expect("a directory");
            fs::write(place.join(TREE).join("file"), [0; 1000]).expect("a file");
            let named = File::create(place.join(NAMED)).expect("a file");
            let made = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            named.set_modified(made).expect("a time");
        }
        let held = File::open(above.join("held").join(NAMED)).expect("a file");
        held.lock_shared().expect("a lock");
        let left = |room: u64| {
            house.keep_sources_within(room).expect("room");
            names(&above)
        };
        assert_eq!(left(4000), ["held", "newest", "older", "oldest"]);
        assert_eq!(left(3999), ["held", "newest", "older"]);
        assert_eq!(left(2000), ["held", "newest"]);
        assert_eq!(left(0), ["held"]);
        drop(held);
        assert_eq!(left(0), [""; 0]);
    }

    #[test]
    fn an_unpacked_source_serves_under_its_own_name_alone() {
        let sdist = |name: &str, version: &str| {
            Sdist(Wheel {
                name: name.to_owned(),
                version: version.to_owned(),
                file: format!("{name}-{version}.tar.gz"),
                url: String::new(),
                sha256: "ab".repeat(32),
                size: None,
            })
        };
        let root = tempfile::tempdir().expect("a directory");
        let house = House::at(root.path().to_owned());
        let place = house.source_dir(&sdist("a-b", "1"));
        fs::create_dir_all(place.join(TREE)).expect("a directory");
        let is_here = |name: &str, version: &str| house.unpacked(&sdist(name, version)).expect("a look").is_some();
        assert!(!is_here("a-b", "1"), "nothing says what it is");
        fs::write(place.join(NAMED), "A_b-1.0.tar.gz").expect("a file");
        assert!(is_here("a-b", "1") && is_here("a.b", "1.0.0"));
        for (name, version) in [("c", "1"), ("a-b", "2"), ("a", "1"), ("a-b-1", "1"), ("", "")] {
            assert!(!is_here(name, version), "{name} {version}");
        }
    }
}
