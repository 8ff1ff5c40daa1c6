//! Removes what a job left.

use std::ffi::{OsStr, OsString};
use std::io;

use cap_std::fs::Dir;

use crate::open::open_dir;

/// Removes a directory with all that is in it, however deep: every directory below is moved up before it is emptied, so
/// that neither the stack nor descriptors nor the time for a step grow with the depth that a guest chose.
pub(crate) fn remove_tree(parent: &Dir, name: &OsStr) -> io::Result<()> {
    let top = open_dir(parent, name)?;
    let mut moved = 0u64;
    loop {
        let entries = names(&top)?;
        if entries.is_empty() {
            return parent.remove_dir(name);
        }
        for (entry, is_dir) in entries {
            if !is_dir {
                top.remove_file(&entry)?;
                continue;
            }
            let dir = open_dir(&top, &entry)?;
            for (inner, is_dir) in names(&dir)? {
                if is_dir {
                    move_up(&dir, &inner, &top, &mut moved)?;
                } else {
                    dir.remove_file(&inner)?;
                }
            }
            top.remove_dir(&entry)?;
        }
    }
}

/// Moves a directory to where nothing but an empty one is in its way.
fn move_up(dir: &Dir, name: &OsStr, top: &Dir, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match dir.rename(name, top, format!(".gone-{moved}")) {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                ) => {}
            done => return done,
        }
    }
}

fn names(dir: &Dir) -> io::Result<Vec<(OsString, bool)>> {
    dir.entries()?.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?.is_dir())))).collect()
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_tree_is_removed_however_deep_and_wide() {
        let parent = tempfile::tempdir().expect("a directory");
        let parent = Dir::open_ambient_dir(parent.path(), ambient_authority()).expect("it opens");
        parent.create_dir("tree").expect("a fresh directory takes folders");
        for branch in 0..3 {
            let mut dir = parent.open_dir("tree").expect("it was just made");
            for level in 0..3000 {
                let name = format!("{branch}");
                dir.create_dir(&name).expect("room for a folder");
                dir = dir.open_dir(&name).expect("it was just made");
                if level % 100 == 0 {
                    dir.create(".gone-1").expect("room for a file");
                    dir.create("file").expect("room for a file");
                }
            }
        }
        remove_tree(&parent, "tree".as_ref()).expect("all of it can be removed");
        assert!(!parent.exists("tree"));
    }
}
