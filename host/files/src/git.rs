//! Names that git treats as its own. A user who can write to a git directory can make git run programs.

use cap_std::fs::Dir;

/// Returns true if a file system could take the name for `.git`.
///
/// Some file systems ignore case. Windows ignores trailing dots and spaces, treats the part after a colon as the name
/// of a stream, and has a short name for `.git`. HFS+ ignores zero-width characters.
#[must_use]
pub fn is_git_name(name: &str) -> bool {
    let name: String = name.chars().take_while(|char| *char != ':').filter(|char| !is_ignorable(*char)).collect();
    let name = name.trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|git| name.eq_ignore_ascii_case(git))
}

/// Returns true for the characters that HFS+ ignores in names, which git itself ignores as well.
fn is_ignorable(char: char) -> bool {
    matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Returns true if adding `name` would make the directory a git repository.
///
/// git treats any directory as a repository that has `HEAD`, `objects` and `refs`, or `HEAD` and the file `commondir`.
/// It runs programs that the `config` beside them names.
pub(crate) fn completes_repository(dir: &Dir, name: &str) -> bool {
    const PARTS: [(&str, &[&str]); 5] = [
        ("HEAD", &["objects", "refs"]),
        ("HEAD", &["commondir"]),
        ("objects", &["HEAD", "refs"]),
        ("refs", &["HEAD", "objects"]),
        ("commondir", &["HEAD"]),
    ];
    let exists = |other: &&str| dir.symlink_metadata(other).is_ok();
    PARTS.iter().any(|(part, others)| name.eq_ignore_ascii_case(part) && others.iter().all(exists))
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn detects_last_part_of_a_repository() -> std::io::Result<()> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        let parts = ["HEAD", "objects", "refs"];
        for last in parts {
            for part in parts.iter().filter(|part| **part != last) {
                assert!(!completes_repository(&dir, part), "{part} before {last}");
                dir.create_dir(part)?;
            }
            assert!(completes_repository(&dir, last) && !completes_repository(&dir, "config"), "{last}");
            parts.iter().filter(|part| **part != last).try_for_each(|part| dir.remove_dir(part))?;
        }
        assert!(!completes_repository(&dir, "commondir"));
        dir.write("HEAD", "ref: refs/heads/main")?;
        assert!(completes_repository(&dir, "commondir") && completes_repository(&dir, "CommonDir"));
        Ok(())
    }

    #[test]
    fn detects_names_of_git_directories() {
        let streams = [".git:x", ".git::$INDEX_ALLOCATION"];
        let ignorable = [".g\u{200c}it", "\u{feff}.git", ".git\u{202e}", ".g\u{200c}i\u{206f}t."];
        for name in [".git", ".GIT", ".Git", "git~1", "GIT~1", ".git. "].into_iter().chain(streams).chain(ignorable) {
            assert!(is_git_name(name), "{name:?}");
        }
        for name in [".g\u{200b}it", ":.git", "git", ".github", ".gitignore", "x.git", ""] {
            assert!(!is_git_name(name), "{name}");
        }
    }
}
