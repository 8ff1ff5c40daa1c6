//! Symbolic links below the working directory, which an earlier job may have created.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::host_environment::HostEnvironment;

/// Maximum number of symbolic links that the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// A symbolic link in the path of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    path: PathBuf,
    /// Target of the whole path, as far as it exists.
    pub target: PathBuf,
}

impl Link {
    /// Returns the reason to refuse a path that contains this link.
    pub(super) fn reason(&self) -> String {
        let Self { path, target } = self;
        let (path, target) = (path.display(), target.display());
        format!("{path} is a symbolic link that an earlier job could have created; it resolves to {target}")
    }
}

/// Finds a link at or below the working directory that the system would follow to resolve `path`.
///
/// A job with write access to the working directory can have created such a link. Links above that directory belong to
/// the machine or the user. `path` is absolute; a part of it that does not exist contains no link.
pub(super) fn below_working_directory(path: &Path, host_environment: &dyn HostEnvironment) -> io::Result<Option<Link>> {
    let working = match host_environment.current_dir().and_then(|dir| dir.canonicalize()) {
        // A working directory that was removed contains no link.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mut rest: VecDeque<OsString> = VecDeque::new();
    let mut place = PathBuf::new();
    let mut links = 0;
    follow(path, &mut place, &mut rest);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&name);
        let is_link = match fs::symlink_metadata(&next) {
            Ok(meta) => meta.is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !is_link {
            place = next;
            continue;
        }
        if place.canonicalize()?.starts_with(&working) {
            let target = path.canonicalize().or_else(|_| resolve_dangling(&next, &place, &rest))?;
            return Ok(Some(Link { path: next, target }));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("too many symbolic links"));
        }
        follow(&fs::read_link(&next)?, &mut place, &mut rest);
    }
    Ok(None)
}

/// Returns the target of a dangling link in the directory `holder`, with the rest of the path appended.
fn resolve_dangling(link: &Path, holder: &Path, rest: &VecDeque<OsString>) -> io::Result<PathBuf> {
    let mut target = holder.to_owned();
    let written = fs::read_link(link)?;
    let (mut names, mut place) = (VecDeque::new(), PathBuf::new());
    follow(&written, &mut place, &mut names);
    if written.is_absolute() {
        target = place;
    }
    for name in names.iter().chain(rest) {
        if name == ".." {
            target.pop();
        } else {
            target.push(name);
        }
    }
    Ok(target)
}

/// Puts the components of `path` before those in `rest`; an absolute `path` resets `place` to the root.
fn follow(path: &Path, place: &mut PathBuf, rest: &mut VecDeque<OsString>) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => {
                *place = path
                    .components()
                    .take_while(|part| !matches!(part, Component::Normal(_) | Component::ParentDir))
                    .collect();
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_to_absent_places_are_resolved_without_the_file_system() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let holder = dir.path().join("holder");
        fs::create_dir(&holder)?;
        for (written, rest, expected) in [
            ("absent", vec![], "holder/absent"),
            ("../absent", vec!["a", "..", "b"], "absent/b"),
            ("../../..", vec![], ""),
        ] {
            let link = holder.join("link");
            symlink(written, &link)?;
            let rest = rest.into_iter().map(OsString::from).collect();
            let expected = if expected.is_empty() {
                dir.path().parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned()
            } else {
                dir.path().join(expected)
            };
            assert_eq!(resolve_dangling(&link, &holder, &rest)?, expected, "{written}");
            fs::remove_file(&link)?;
        }
        let link = holder.join("link");
        symlink("/absent/../else", &link)?;
        assert_eq!(resolve_dangling(&link, &holder, &VecDeque::from(["x".into()]))?, Path::new("/else/x"));
        Ok(())
    }
}
