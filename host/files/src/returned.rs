//! Files of a job's private directories that are returned as bytes.

use std::io::{self, Read as _};

use cap_std::fs::Dir;

use crate::open::{open_for_reading, open_inner_dir};

/// Reads the regular file at the path of these components below `dir`, of at most `max` bytes. No link is followed.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if there is no regular file at the path, [`io::ErrorKind::FileTooLarge`] if it is larger, and the system's
/// errors.
pub fn read_inner_file(dir: &Dir, parts: &[&str], max: u64) -> io::Result<Vec<u8>> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
    let (name, parents) = parts.split_last().ok_or_else(missing)?;
    let mut inner = None;
    for parent in parents {
        inner = Some(open_inner_dir(inner.as_ref().unwrap_or(dir), parent).map_err(|_| missing())?);
    }
    let file = open_for_reading(inner.as_ref().unwrap_or(dir), name).map_err(|_| missing())?;
    let mut bytes = Vec::new();
    // One byte more shows that the file is larger.
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes"))),
        false => Ok(bytes),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn files_are_read_without_following_links() {
        let home = tempfile::tempdir().expect("a directory");
        let out = home.path().join("out");
        std::fs::create_dir_all(out.join("a")).expect("a directory");
        std::fs::write(out.join("a/b"), "text").expect("it is ours");
        std::fs::write(home.path().join("secret"), "secret").expect("it is ours");
        std::fs::write(out.join("large"), vec![0; 101]).expect("it is ours");
        std::os::unix::fs::symlink("../secret", out.join("link")).expect("it is ours");
        std::os::unix::fs::symlink("..", out.join("dir")).expect("it is ours");
        let dir = Dir::open_ambient_dir(&out, ambient_authority()).expect("a directory");
        assert_eq!(read_inner_file(&dir, &["a", "b"], 4).expect("it is read"), b"text");
        for parts in [&["link"][..], &["dir", "secret"], &["..", "secret"], &["a"], &[], &["missing"], &["large"]] {
            assert!(read_inner_file(&dir, parts, 100).is_err(), "{parts:?}");
        }
    }
}
