//! The pure part of the mount table: from a path to a mount and the rest of the path.

use crate::devices;

/// The mount that a path starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The mount of this index, with the offset of the rest in bytes. The offset may be the path's length.
    Found { index: usize, rest: usize },
    /// The path starts with no mount, and leads to the root's own, empty directories.
    Root,
}

/// Finds the mount with the longest prefix of `path`, by whole components.
///
/// `.` and empty components are skipped. `..` is resolved lexically only above a mount and at a mount's own directory,
/// which are not links. Below a mount, the rest is passed on unchanged, and the kernel refuses to leave the mount.
pub(crate) fn resolve(mounts: &[Vec<String>], path: &str) -> Prefix {
    let mut position: Vec<&str> = Vec::new();
    let mut found = Prefix::Root;
    let mut offset = 0;
    for component in path.split('/') {
        let end = offset + component.len();
        let rest = (end + 1).min(path.len());
        offset = end + 1;
        match component {
            "" | "." => {}
            ".." => {
                if let Prefix::Found { index, .. } = found
                    && mounts[index].len() < position.len()
                {
                    return found;
                }
                position.pop();
                found = exact_match(mounts, &position, rest);
            }
            name => {
                position.push(name);
                match exact_match(mounts, &position, rest) {
                    Prefix::Root => {}
                    inner => found = inner,
                }
            }
        }
    }
    found
}

/// Returns the rest of a path relative to the root, if the path leads to the virtual devices.
pub(crate) fn device_path(path: &str) -> Option<&str> {
    match resolve(&[vec![devices::DIRECTORY.to_owned()]], path) {
        Prefix::Found { rest, .. } => Some(&path[rest..]),
        Prefix::Root => None,
    }
}

fn exact_match(mounts: &[Vec<String>], position: &[&str], rest: usize) -> Prefix {
    match mounts.iter().position(|mount| mount.iter().map(String::as_str).eq(position.iter().copied())) {
        Some(index) => Prefix::Found { index, rest },
        None => Prefix::Root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Vec<Vec<String>> {
        ["work", "work/ro", "tmp", "usr/local/lib"].iter().map(|m| m.split('/').map(str::to_owned).collect()).collect()
    }

    fn resolve_path(path: &str) -> Option<(usize, &str)> {
        match resolve(&mounts(), path) {
            Prefix::Found { index, rest } => Some((index, &path[rest..])),
            Prefix::Root => None,
        }
    }

    #[test]
    fn longest_prefix_wins_by_component() {
        assert_eq!(resolve_path("work/a/b"), Some((0, "a/b")));
        assert_eq!(resolve_path("work/ro/a"), Some((1, "a")));
        assert_eq!(resolve_path("work/rotten"), Some((0, "rotten")));
        assert_eq!(resolve_path("workshop/a"), None);
        assert_eq!(resolve_path("usr/local/lib/python315.zip"), Some((3, "python315.zip")));
        assert_eq!(resolve_path("usr/local"), None);
    }

    #[test]
    fn mount_root_has_empty_rest() {
        for path in ["work", "work/", "./work", "//work", "tmp/../work", "work/ro/.."] {
            assert_eq!(resolve_path(path), Some((0, "")), "{path}");
        }
    }

    #[test]
    fn resolves_dot_dot_lexically_only_above_mounts() {
        assert_eq!(resolve_path("work/../tmp/x"), Some((2, "x")));
        assert_eq!(resolve_path("work/../../../tmp/x"), Some((2, "x")));
        assert_eq!(resolve_path("work/a/../../tmp"), Some((0, "a/../../tmp")));
        assert_eq!(resolve_path("work/../etc/passwd"), None);
    }

    #[test]
    fn keeps_trailing_slashes_in_rest() {
        assert_eq!(resolve_path("work/link/"), Some((0, "link/")));
        assert_eq!(resolve_path("work//x"), Some((0, "/x")));
    }
}
