//! Names of git's own directories: who can write there has git run programs of theirs.

/// Returns true if a file system could take the name for `.git`.
///
/// Some ignore case, Windows ignores dots and spaces at the end and has a short name for it.
#[must_use]
pub fn is_git_name(name: &str) -> bool {
    let name = name.trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|git| name.eq_ignore_ascii_case(git))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_git_directories_are_known() {
        for name in [".git", ".GIT", ".Git", "git~1", "GIT~1", ".git. "] {
            assert!(is_git_name(name), "{name}");
        }
        for name in ["git", ".github", ".gitignore", "x.git", ""] {
            assert!(!is_git_name(name), "{name}");
        }
    }
}
