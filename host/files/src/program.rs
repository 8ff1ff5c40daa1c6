//! A program that codebox carries with it, as a file of this user alone.
//!
//! Comparing megabytes at every start would cost more than the start. A seal beside the file therefore holds the identity
//! that the system kept for it when its content was last compared: device, inode, size, and the times of its last change.
//! The change time moves with content, owner, mode and name, and an unprivileged program cannot set it back.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::{open_itself, private_dir};

/// The longest seal that is read.
const LONGEST_SEAL: u64 = 256;

/// Opens the program `name` below `folder`, whose content is `content`; writes it where it is missing or different.
///
/// The file and its directory belong to this user, nobody else can write to either, and neither is a link. Run what was
/// opened, by its descriptor, and not what is at its path later.
///
/// # Errors
/// When the directory is another user's or open to others, or when the file cannot be written or opened.
pub fn open_program(folder: &Path, name: &str, content: &[u8]) -> io::Result<File> {
    if fs::symlink_metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        private_dir(folder)?;
    }
    let meta = fs::symlink_metadata(folder)?;
    if !meta.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is not a directory", folder.display())));
    }
    check_owner(&meta).map_err(|why| io::Error::other(format!("{} {why}", folder.display())))?;
    let (path, seal) = (folder.join(name), folder.join(format!("{name}.seal")));
    if let Some((file, identity)) = open(&path, content.len())? {
        if read(&seal).is_ok_and(|sealed| sealed == identity) {
            return Ok(file);
        }
        if is_content(&file, content)? {
            write(folder, &seal, identity.as_bytes(), 0o600)?;
            return Ok(file);
        }
    }
    write(folder, &path, content, 0o500)?;
    let gone = || io::Error::other(format!("{} was changed while it was written", path.display()));
    let (file, identity) = open(&path, content.len())?.ok_or_else(gone)?;
    if !is_content(&file, content)? {
        return Err(gone());
    }
    write(folder, &seal, identity.as_bytes(), 0o600)?;
    Ok(file)
}

/// Opens a file and tells its identity; nothing if it is missing, or no program of this user's alone of this length.
fn open(path: &Path, length: usize) -> io::Result<Option<(File, String)>> {
    let mut options = OpenOptions::new();
    open_itself(options.read(true));
    let file = match options.open(path) {
        Ok(file) => file,
        // Missing, or a link, which is replaced.
        Err(_) => return Ok(None),
    };
    let meta = file.metadata()?;
    let fits = meta.is_file() && meta.len() == length as u64 && check_owner(&meta).is_ok() && meta.mode() & 0o100 != 0;
    Ok(fits.then(|| (file, identity(&meta))))
}

fn is_content(file: &File, content: &[u8]) -> io::Result<bool> {
    let mut found = Vec::with_capacity(content.len());
    file.take(content.len() as u64 + 1).read_to_end(&mut found)?;
    Ok(found == content)
}

fn identity(meta: &Metadata) -> String {
    let times = format!("{} {} {} {}", meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    format!("{} {} {} {times}", meta.dev(), meta.ino(), meta.len())
}

/// Refuses what belongs to somebody else or can be written by others.
fn check_owner(meta: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if meta.uid() != own {
        return Err(format!("belongs to user {} and not to {own}", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return Err("can be written by others".to_owned());
    }
    Ok(())
}

fn read(seal: &Path) -> io::Result<String> {
    let mut options = OpenOptions::new();
    open_itself(options.read(true));
    let mut text = String::new();
    options.open(seal)?.take(LONGEST_SEAL).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file whole under its name.
fn write(folder: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    temp.write_all(content)?;
    temp.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    // Closed before anybody runs it: a program that is open for writing is not run.
    temp.into_temp_path().persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &[u8] = b"#!/bin/sh\n";

    fn content_of(mut file: File) -> Vec<u8> {
        let mut found = Vec::new();
        io::Seek::rewind(&mut file).expect("a file");
        file.read_to_end(&mut found).expect("a file");
        found
    }

    #[test]
    fn replaces_what_is_not_the_program() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("programs");
        let open = || open_program(&folder, "tool", CONTENT);
        assert_eq!(content_of(open().expect("it is written")), CONTENT);
        let path = folder.join("tool");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o500));
        // The same length, the same time of its last change: only the change time tells.
        let before = fs::metadata(&path).expect("it is there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::write(&path, b"#!/bin/no\n").expect("written");
        File::options().write(true).open(&path).and_then(|file| file.set_modified(before.modified()?)).expect("a time");
        assert_eq!(content_of(open().expect("it is written again")), CONTENT);
        // A link in its place, and a forged seal beside it.
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/bin/sh", &path).expect("a link");
        assert_eq!(content_of(open().expect("it is written again")), CONTENT);
        fs::write(folder.join("tool.seal"), "nonsense").expect("written");
        assert_eq!(content_of(open().expect("it is compared")), CONTENT);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert_eq!(content_of(open().expect("it is written again")), CONTENT);
        assert_eq!(mode(&path), 0o500);
    }

    #[test]
    fn refuses_a_directory_that_others_can_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("programs");
        private_dir(&folder).expect("a directory");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("a mode");
        let error = open_program(&folder, "tool", CONTENT).expect_err("others can write there");
        assert!(error.to_string().contains("written by others"), "{error}");
        let link = dir.path().join("link");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("a mode");
        std::os::unix::fs::symlink(&folder, &link).expect("a link");
        assert!(open_program(&link, "tool", CONTENT).is_err());
    }
}
