//! Patterns of the `.gitignore` files of a project.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Patterns of the directories that lead to the one that is read, the outermost first.
#[derive(Default)]
pub(super) struct IgnoreRules {
    levels: Vec<Level>,
    /// Path from the outermost directory to the project, empty or ending with `/`.
    prefix: String,
}

struct Level {
    /// Path of the directory from the outermost one, empty or ending with `/`.
    at: String,
    patterns: Gitignore,
}

impl IgnoreRules {
    /// Adds the patterns of a directory of the project, or of one above it.
    pub(super) fn enter(&mut self, at: &str, text: Option<&str>) {
        let at = if at.is_empty() { self.prefix.clone() } else { format!("{}{at}/", self.prefix) };
        // Patterns apply relative to their directory.
        let mut builder = GitignoreBuilder::new("");
        for line in text.unwrap_or_default().lines() {
            // git ignores patterns with errors too.
            let _ = builder.add_line(None, line);
        }
        let patterns = builder.build().unwrap_or_else(|_| Gitignore::empty());
        self.levels.push(Level { at, patterns });
    }

    /// Names the entry of the directory above that leads to the project.
    pub(super) fn descend(&mut self, name: &str) {
        self.prefix.push_str(name);
        self.prefix.push('/');
    }

    /// Removes the patterns of the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Returns true if a pattern excludes the entry at a path of the project. The last pattern of the innermost directory decides.
    pub(super) fn exclude(&self, path: &str, is_dir: bool) -> bool {
        let path = format!("{}{path}", self.prefix);
        let found = self.levels.iter().rev().find_map(|level| {
            let below = path.strip_prefix(&level.at)?;
            match level.patterns.matched(below, is_dir) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        found.unwrap_or(false)
    }
}
