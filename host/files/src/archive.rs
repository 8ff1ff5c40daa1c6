//! Trees in archives: a directory that a job made, as a tar archive, and back.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, SystemTimeSpec};
use cap_std::fs::{Dir, OpenOptions};
use tar::{Archive, Builder, EntryType, Header};

use crate::limited_reader::{LimitedReader, MAX_MEMBER_HEADER};
use crate::open::{open_dir, open_file};
use crate::tree::{MAX_DEPTH, MAX_ENTRIES, named};

/// Bytes of a header, and at most as many of padding, of a member.
const BLOCK: u64 = 512;

/// Writes the contents of a directory as a tar archive, without following links: files and directories with their times of modification
/// in seconds, and symbolic links with their text. Modes and owners are not part of it.
///
/// # Errors
/// As for [`copy_tree`](crate::copy_tree); also if the archive cannot be written, or if a file changes its size meanwhile.
pub fn pack_tree(from: &Dir, to: impl Write) -> io::Result<()> {
    let mut pack = Pack { builder: Builder::new(to), entries: 0 };
    pack.dir(from, Path::new(""), 0)?;
    pack.builder.into_inner().map(|_| ())
}

struct Pack<W: Write> {
    builder: Builder<W>,
    entries: usize,
}

impl<W: Write> Pack<W> {
    fn dir(&mut self, dir: &Dir, at: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(named(at, io::Error::other("the tree is too deep")));
        }
        for entry in dir.entries()? {
            let name = entry?.file_name();
            let at = at.join(&name);
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(named(&at, io::Error::other("the tree has too many entries")));
            }
            let failed = |error| named(&at, error);
            let metadata = dir.symlink_metadata(&name).map_err(failed)?;
            let time = metadata.modified().map_or(UNIX_EPOCH, cap_std::time::SystemTime::into_std);
            if metadata.is_dir() {
                let header = header(EntryType::Directory, 0, time);
                self.builder.append_data(&mut header.clone(), &at, io::empty()).map_err(failed)?;
                self.dir(&open_dir(dir, &name).map_err(failed)?, &at, depth + 1)?;
            } else if metadata.is_symlink() {
                let target = dir.read_link_contents(&name).map_err(failed)?;
                let mut header = header(EntryType::Symlink, 0, time);
                // Other functions of the library change the text, or limit its length.
                let mut extension = Header::new_gnu();
                let text = target.as_os_str().as_encoded_bytes();
                if header.set_link_name_literal(text).is_err() {
                    extension.set_path("././@LongLink").map_err(failed)?;
                    extension.set_entry_type(EntryType::GNULongLink);
                    extension.set_size(text.len() as u64 + 1);
                    extension.set_cksum();
                    self.builder.append(&extension, text.chain(&[0][..])).map_err(failed)?;
                }
                self.builder.append_data(&mut header, &at, io::empty()).map_err(failed)?;
            } else if metadata.is_file() {
                let file = open_file(dir, &name).map_err(failed)?.into_std();
                let size = file.metadata().map_err(failed)?.len();
                let mut data = file.take(size);
                self.builder
                    .append_data(&mut header(EntryType::Regular, size, time), &at, &mut data)
                    .map_err(failed)?;
                if data.limit() > 0 {
                    return Err(failed(io::Error::other("the file has become shorter while it was read")));
                }
            } else {
                return Err(failed(io::Error::other("it is a socket, a pipe or a device")));
            }
        }
        Ok(())
    }
}

fn header(kind: EntryType, size: u64, time: SystemTime) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_size(size);
    header.set_mtime(time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()));
    header
}

/// Rules for the members of an archive.
#[derive(Debug, Clone, Copy)]
pub struct UnpackRules<'r> {
    /// Files at the top that have a maximum size of their own, in bytes.
    pub files: &'r [(&'r str, u64)],
    /// Directories at the top. Other members at the top are refused.
    pub dirs: &'r [&'r str],
    /// Maximum number of bytes of all files in these directories together.
    pub max_bytes: u64,
    /// Maximum number of members in these directories, at most 200,000.
    pub max_entries: u64,
}

/// Writes the members of a tar archive into an empty directory, as [`pack_tree`] has read them.
///
/// The archive is not trusted: a member is written by a name of one component below open directories, so that no link is followed.
///
/// # Errors
/// An error with the name of a member that is no file, directory or symbolic link, whose name is absolute, refers to a parent directory
/// or is taken, which is below something else than a directory, or that the rules do not allow; for a tree deeper than 128
/// levels; the system's errors with the name.
pub fn unpack_tree(from: impl Read, to: &Dir, rules: &UnpackRules<'_>) -> io::Result<()> {
    let header_budget = Cell::new(MAX_MEMBER_HEADER);
    let overhead = (MAX_ENTRIES as u64 + 2) * 2 * BLOCK + MAX_MEMBER_HEADER;
    let all_files = rules.files.iter().fold(rules.max_bytes, |sum, (_, size)| sum.saturating_add(*size));
    let reader = LimitedReader::new(from, all_files.saturating_add(overhead), &header_budget);
    let mut archive = Archive::new(reader);
    let mut entries = archive.entries()?;
    let max_entries = rules.max_entries.min(MAX_ENTRIES as u64);
    let (mut count, mut left, mut times) = (0_u64, rules.max_bytes, Vec::new());
    loop {
        header_budget.set(MAX_MEMBER_HEADER);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", shown(&path).display()));
        let kind = entry.header().entry_type();
        let own_size = own_size(rules, &path, kind).map_err(failed)?;
        // The directories at the top are not those of the program.
        count += u64::from(own_size.is_none() && path.components().count() > 1);
        if count > max_entries {
            return Err(failed(io::Error::other("there are too many files and directories")));
        }
        let (dir, name) = open_parent(to, &path).map_err(failed)?;
        let time = UNIX_EPOCH + Duration::from_secs(entry.header().mtime()?.min(MAX_TIME));
        match kind {
            EntryType::Directory => {
                dir.create_dir(name).map_err(failed)?;
                times.push((path, time));
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.unwrap_or_default().into_owned();
                symlink(&dir, &target, name).map_err(failed)?;
            }
            EntryType::Regular => {
                let size = entry.size();
                let allowed = own_size.unwrap_or(left);
                if size > allowed {
                    return Err(failed(io::Error::other("the files are too large")));
                }
                if own_size.is_none() {
                    left -= size;
                }
                header_budget.set(u64::MAX);
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).follow(FollowSymlinks::No);
                let mut file = dir.open_with(name, &options).map_err(failed)?.into_std();
                if io::copy(&mut entry, &mut file).map_err(failed)? != size {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
                file.set_modified(time).map_err(failed)?;
            }
            _ => return Err(failed(io::Error::other("it is no file, directory or symbolic link"))),
        }
    }
    // A directory gets its time when its contents are there, the inner ones first.
    for (path, time) in times.into_iter().rev() {
        let (dir, name) = open_parent(to, &path)?;
        let time = SystemTimeSpec::Absolute(cap_std::time::SystemTime::from_std(time));
        dir.set_symlink_times(name, None, Some(time)).map_err(|error| named(&shown(&path), error))?;
    }
    Ok(())
}

/// Returns the maximum size of a file at the top; `None` for a member of a directory.
fn own_size(rules: &UnpackRules<'_>, path: &Path, kind: EntryType) -> io::Result<Option<u64>> {
    let unexpected = || io::Error::other("it has no place in the archive");
    let mut components = path.components();
    let Some(Component::Normal(first)) = components.next() else { return Ok(None) };
    let is_top = components.next().is_none();
    if is_top && let Some((_, size)) = rules.files.iter().find(|(name, _)| first == *name) {
        return if kind == EntryType::Regular { Ok(Some(*size)) } else { Err(unexpected()) };
    }
    let is_dir = rules.dirs.iter().any(|name| first == *name) && (!is_top || kind == EntryType::Directory);
    if is_dir { Ok(None) } else { Err(unexpected()) }
}

/// Latest time of modification of a member in seconds since 1970, in the year 2200: file systems refuse times that they cannot represent.
const MAX_TIME: u64 = 230 * 365 * 24 * 3600;

/// Opens the directory of a member, and returns it with the last component of the member's name.
fn open_parent<'p>(root: &Dir, path: &'p Path) -> io::Result<(Dir, &'p Path)> {
    let mut components = path.components().map(|component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::other("its name is absolute or refers to a parent directory")),
    });
    let mut name = components.next().ok_or_else(|| io::Error::other("it has no name"))??;
    let mut dir = root.try_clone()?;
    for (depth, component) in components.enumerate() {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other("the tree is too deep"));
        }
        dir = open_dir(&dir, name)?;
        name = component?;
    }
    Ok((dir, Path::new(name)))
}

#[cfg(unix)]
fn symlink(dir: &Dir, target: &Path, name: &Path) -> io::Result<()> {
    dir.symlink_contents(target, name)
}

#[cfg(not(unix))]
fn symlink(_: &Dir, _: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("it is a symbolic link, which cannot be created on this system"))
}

/// Returns the name of a member for a message.
fn shown(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    text.chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect::<String>().into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink as make_link;

    use anyhow::Result;
    use cap_std::ambient_authority;

    use super::*;

    fn dir() -> Result<(tempfile::TempDir, Dir)> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        Ok((home, dir))
    }

    #[test]
    fn trees_are_packed_and_unpacked() -> Result<()> {
        let ((home, from), (copy, to)) = (dir()?, dir()?);
        let deep = "d".repeat(150);
        fs::create_dir_all(home.path().join("a").join(&deep))?;
        fs::write(home.path().join("a").join(&deep).join("file"), vec![7; 100_000])?;
        make_link("/etc/passwd", home.path().join("a/outside"))?;
        make_link("./x//y/", home.path().join("a/odd"))?;
        let far = "d/".repeat(200);
        make_link(&far, home.path().join("a/far"))?;
        fs::write(home.path().join("note"), "abc")?;
        let then = UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::open(home.path().join("a"))?.set_modified(then)?;
        let mut archive = Vec::new();
        pack_tree(&from, &mut archive)?;
        let rules =
            |max_bytes, max_entries| UnpackRules { files: &[("note", 3)], dirs: &["a", "b"], max_bytes, max_entries };
        unpack_tree(archive.as_slice(), &to, &rules(100_000, 6))?;
        assert!(fs::read(copy.path().join("a").join(&deep).join("file"))? == vec![7; 100_000]);
        for (name, target) in [("outside", "/etc/passwd"), ("odd", "./x//y/"), ("far", &far)] {
            assert_eq!(fs::read_link(copy.path().join("a").join(name))?.as_os_str(), target);
        }
        assert_eq!(fs::metadata(copy.path().join("a"))?.modified()?, then);
        let unpack = |rules| unpack_tree(archive.as_slice(), &dir()?.1, &rules).map_err(anyhow::Error::from);
        for (refused, why) in [
            (rules(99_999, 6), "too large"),
            (rules(100_000, 3), "too many"),
            (UnpackRules { files: &[("note", 2)], ..rules(100_000, 6) }, "note: the files are too large"),
            (UnpackRules { files: &[], ..rules(100_000, 6) }, "note: it has no place"),
            (UnpackRules { dirs: &["b"], ..rules(100_000, 6) }, "no place"),
        ] {
            let error = unpack(refused).expect_err("it is refused").to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
        Ok(())
    }

    /// Returns the error of an archive with these members: kind, name and target of the link.
    fn refused(members: &[(EntryType, &str, &str)]) -> Result<String> {
        let (home, _) = dir()?;
        fs::create_dir(home.path().join("into"))?;
        fs::write(home.path().join("kept"), "kept")?;
        let into = Dir::open_ambient_dir(home.path().join("into"), ambient_authority())?;
        let mut builder = Builder::new(Vec::new());
        for (kind, name, target) in members {
            let size = if *kind == EntryType::Regular { 4 } else { 0 };
            let mut header = header(*kind, size, UNIX_EPOCH);
            // The function of the library refuses most of these names.
            let field = &mut header.as_old_mut().name;
            field[..name.len()].copy_from_slice(name.as_bytes());
            if !target.is_empty() {
                header.set_link_name_literal(target)?;
            }
            header.set_cksum();
            builder.append(&header, &b"evil"[..size as usize])?;
        }
        let rules = UnpackRules { files: &[("state", 10)], dirs: &["a", "d"], max_bytes: 1000, max_entries: 100 };
        let error =
            unpack_tree(builder.into_inner()?.as_slice(), &into, &rules).expect_err("it is refused").to_string();
        assert_eq!(fs::read_to_string(home.path().join("kept"))?, "kept");
        assert!(!error.contains('\u{1b}'), "{error:?}");
        Ok(error)
    }

    #[test]
    fn hostile_members_are_refused() -> Result<()> {
        let link = EntryType::Symlink;
        let file = EntryType::Regular;
        assert!(refused(&[(file, "../kept", "")])?.contains("parent directory"));
        assert!(refused(&[(file, "a/../../kept", "")])?.contains("a/../../kept"));
        assert!(refused(&[(file, "/tmp/kept", "")])?.contains("absolute"));
        let dir = EntryType::Directory;
        assert!(refused(&[(link, "a", "..")])?.contains("no place"));
        assert!(refused(&[(link, "state", "../kept")])?.contains("no place"));
        assert!(refused(&[(file, "state", ""), (file, "state", "")])?.contains("state: File exists"));
        refused(&[(dir, "a", ""), (link, "a/b", "../.."), (file, "a/b/kept", "")])?;
        refused(&[(dir, "a", ""), (link, "a/b", "../../kept"), (file, "a/b", "")])?;
        assert!(refused(&[(dir, "a", ""), (file, "a/b", ""), (file, "a/b", "")])?.contains("a/b: File exists"));
        refused(&[(dir, "a", ""), (file, "a/b", ""), (file, "a/b/c", "")])?;
        refused(&[(file, "a/missing/b", "")])?;
        assert!(refused(&[(file, "evil/x", "")])?.contains("no place"));
        for kind in [EntryType::Link, EntryType::Fifo, EntryType::Char, EntryType::Block] {
            assert!(refused(&[(dir, "a", ""), (kind, "a/b", "../../kept")])?.contains("no file, directory"));
        }
        refused(&[(file, "\u{1b}[2J/a", "")])?;
        assert!(refused(&[(file, &"d/".repeat(49), ""), (file, "", "")]).is_ok());
        Ok(())
    }

    #[test]
    fn names_and_members_are_limited() -> Result<()> {
        let mut builder = Builder::new(Vec::new());
        let mut long = header(EntryType::Regular, 2 * MAX_MEMBER_HEADER, UNIX_EPOCH);
        long.set_entry_type(EntryType::GNULongName);
        long.set_cksum();
        builder.append(&long, io::repeat(b'a').take(2 * MAX_MEMBER_HEADER))?;
        let (_home, to) = dir()?;
        let rules = UnpackRules { files: &[], dirs: &["a"], max_bytes: u64::MAX, max_entries: u64::MAX };
        let error = unpack_tree(builder.into_inner()?.as_slice(), &to, &rules).expect_err("the name is too long");
        assert!(format!("{error:?}").contains("header of a member"), "{error:?}");
        Ok(())
    }
}
