//! Directories of Windows in a distribution.

use codebox_core::Access;
use codebox_vm_guest::Exec;
use thiserror::Error;

/// Options of a directory: modes and owners are kept beside its files, which belong to the user of Podman by default.
const OPTIONS: &str = "metadata,uid=1000,gid=1000";

/// A directory that cannot be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriveError {
    /// The path is not that of a directory on a drive or a server.
    #[error("{0} is neither a path on a drive nor on a server")]
    Form(String),
    /// The directory belongs to another distribution.
    #[error("{0} is a directory of another distribution")]
    Distribution(String),
    /// The names of a drive or a server and its share have characters that separate options.
    #[error("{0} has a comma or a semicolon in the name of its share")]
    Share(String),
}

/// Mount of one directory of Windows. The drives themselves are not mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveMount {
    /// Directory of Windows that is mounted.
    source: String,
    /// Path below it that is shared, without a slash at its beginning; empty for the directory itself.
    inner: String,
    access: Access,
}

impl DriveMount {
    /// Plans the mount of a directory, given by its path with backslashes.
    ///
    /// # Errors
    /// Returns an error for a relative path, and for directories of other distributions.
    pub fn new(path: &str, access: Access) -> Result<Self, DriveError> {
        let plain = path.strip_prefix(r"\\?\").map_or_else(
            || path.to_owned(),
            |rest| rest.strip_prefix(r"UNC\").map_or_else(|| rest.to_owned(), |rest| format!(r"\\{rest}")),
        );
        let form = || DriveError::Form(path.to_owned());
        let is_separator = |c: char| matches!(c, '\\' | '/');
        let (root, rest) = if let Some(rest) = plain.strip_prefix(r"\\") {
            let mut names = rest.splitn(3, is_separator);
            let (server, share) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
            if ["wsl$", "wsl.localhost"].iter().any(|name| server.eq_ignore_ascii_case(name)) {
                return Err(DriveError::Distribution(path.to_owned()));
            }
            if [server, share].iter().any(|name| matches!(*name, "" | "." | ".." | "?")) {
                return Err(form());
            }
            (format!(r"\\{server}\{share}"), names.next().unwrap_or_default())
        } else {
            let mut chars = plain.chars();
            let letter = chars.next().filter(char::is_ascii_alphabetic).ok_or_else(form)?;
            let rest = chars.as_str().strip_prefix(':').ok_or_else(form)?;
            if !rest.starts_with(is_separator) {
                return Err(form());
            }
            (format!("{}:", letter.to_ascii_uppercase()), rest)
        };
        let names: Vec<&str> = rest.split(is_separator).filter(|name| !name.is_empty()).collect();
        if names.iter().any(|name| matches!(*name, "." | "..") || name.contains(['\0', '\n'])) {
            return Err(form());
        }
        let splits = |text: &str| text.contains([',', ';']);
        if splits(&root) {
            return Err(DriveError::Share(path.to_owned()));
        }
        // A separator of options would end the source, so that the directory above it is mounted, and the one below is bound.
        let mounted = names.iter().position(|name| splits(name)).unwrap_or(names.len());
        let source = match &names[..mounted] {
            [] => format!(r"{root}\"),
            names => format!(r"{root}\{}", names.join(r"\")),
        };
        Ok(Self { source, inner: names[mounted..].join("/"), access })
    }

    /// Returns the commands that mount the directory at a path of the distribution, in their order.
    #[must_use]
    pub fn commands(&self, at: &str) -> Vec<Exec> {
        let root = |words: &[&str]| Exec { argv: words.iter().map(|word| (*word).to_owned()).collect(), is_root: true };
        let below = format!("{at}.drive");
        let mut commands = vec![root(&["mkdir", "-p", at])];
        if self.inner.is_empty() {
            commands.push(root(&["mount", "-t", "drvfs", "-o", OPTIONS, &self.source, at]));
        } else {
            // The directory above is visible to root alone.
            let hidden = format!("{below}/d");
            commands.push(root(&["mkdir", "-p", "-m", "700", &below]));
            commands.push(root(&["mkdir", "-p", &hidden]));
            commands.push(root(&["mount", "-t", "drvfs", "-o", OPTIONS, &self.source, &hidden]));
            commands.push(root(&["mount", "--bind", &format!("{hidden}/{}", self.inner), at]));
        }
        // Some versions refuse a mount that is read-only from its beginning.
        let protection =
            if self.access == Access::ReadOnly { "remount,bind,ro,nosuid,nodev" } else { "remount,bind,nosuid,nodev" };
        commands.push(root(&["mount", "-o", protection, at]));
        commands
    }

    /// Returns the commands that undo [`commands`](Self::commands).
    #[must_use]
    pub fn undo(&self, at: &str) -> Vec<Exec> {
        let root = |words: &[&str]| Exec { argv: words.iter().map(|word| (*word).to_owned()).collect(), is_root: true };
        let mut commands = vec![root(&["umount", "-l", at]), root(&["rmdir", at])];
        if !self.inner.is_empty() {
            commands.push(root(&["umount", "-l", &format!("{at}.drive/d")]));
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planned(path: &str) -> Result<(String, String), DriveError> {
        DriveMount::new(path, Access::ReadWrite).map(|mount| (mount.source, mount.inner))
    }

    #[test]
    fn directories_of_drives_and_servers_are_mounted() {
        for (path, source, inner) in [
            (r"C:\Users\me\data", r"C:\Users\me\data", ""),
            (r"c:\a/b\\c\", r"C:\a\b\c", ""),
            (r"D:\", r"D:\", ""),
            (r"\\server\share\dir", r"\\server\share\dir", ""),
            (r"\\server\share", r"\\server\share\", ""),
            (r"\\?\C:\long", r"C:\long", ""),
            (r"\\?\UNC\server\share\x", r"\\server\share\x", ""),
            (r"C:\a, b\c", r"C:\", "a, b/c"),
            (r"C:\x\y;z\w", r"C:\x", "y;z/w"),
        ] {
            assert_eq!(planned(path), Ok((source.to_owned(), inner.to_owned())), "{path}");
        }
        for path in
            ["", "C:", "C:a", r"\a", r"a\b", r"C:\a\..\b", r"\\server", r"\\.\COM1", "/mnt/c", r"\\?\Volume{1}\x"]
        {
            assert!(matches!(planned(path), Err(DriveError::Form(_))), "{path} {:?}", planned(path));
        }
        for path in [r"\\wsl$\Debian\x", r"\\WSL.localhost\Debian", r"\\?\UNC\wsl$\Debian\x"] {
            assert!(matches!(planned(path), Err(DriveError::Distribution(_))), "{path}");
        }
        assert!(matches!(planned(r"\\a,b\c\d"), Err(DriveError::Share(_))));
    }

    #[test]
    fn read_only_directories_are_protected() {
        let words = |mount: &DriveMount| -> Vec<String> {
            mount.commands("/run/codebox/shares/1").iter().map(|command| command.argv.join(" ")).collect()
        };
        let mount = DriveMount::new(r"C:\data", Access::ReadOnly).expect("a path");
        assert_eq!(
            words(&mount),
            [
                "mkdir -p /run/codebox/shares/1",
                r"mount -t drvfs -o metadata,uid=1000,gid=1000 C:\data /run/codebox/shares/1",
                "mount -o remount,bind,ro,nosuid,nodev /run/codebox/shares/1",
            ]
        );
        let bound = DriveMount::new(r"C:\a,b", Access::ReadWrite).expect("a path");
        assert_eq!(
            words(&bound)[3..],
            [
                r"mount -t drvfs -o metadata,uid=1000,gid=1000 C:\ /run/codebox/shares/1.drive/d",
                "mount --bind /run/codebox/shares/1.drive/d/a,b /run/codebox/shares/1",
                "mount -o remount,bind,nosuid,nodev /run/codebox/shares/1",
            ]
        );
        assert_eq!(bound.undo("/s/1")[2].argv, ["umount", "-l", "/s/1.drive/d"]);
    }

    proptest! {
        /// No path makes further options or leaves its drive.
        #[test]
        fn sources_are_inert(path in r"(([A-Za-z]:)?|\\\\)[\\/a-zA,;. ]{0,24}") {
            if let Ok((source, inner)) = planned(&path) {
                prop_assert!(!source.contains([',', ';']), "{source}");
                let names = source.split('\\').chain(inner.split('/'));
                prop_assert!(names.clone().all(|name| name != ".." && name != "."), "{source} {inner}");
            }
        }
    }
}
