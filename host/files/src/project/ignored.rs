//! Patterns of the `.gitignore` files of a project.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Patterns of the directories that lead to the one that is read, the outermost first.
#[derive(Default)]
pub(super) struct IgnoreRules {
    levels: Vec<Level>,
    /// Path from the outermost directory to the project, empty or ending with `/`.
    prefix: String,
    /// Number of patterns of all files that were read.
    patterns: usize,
}

/// Most patterns of all files together, because each is matched with every path.
const MAX_PATTERNS: usize = 2000;

struct Level {
    /// Path of the directory from the outermost one, empty or ending with `/`.
    at: String,
    patterns: Gitignore,
}

impl IgnoreRules {
    /// Adds the patterns of a directory of the project, or of one above it.
    ///
    /// # Errors
    /// Returns the reason if there are too many patterns, or if they cannot be matched.
    pub(super) fn enter(&mut self, at: &str, text: &str) -> Result<(), String> {
        let at = if at.is_empty() { self.prefix.clone() } else { format!("{}{at}/", self.prefix) };
        // Patterns apply relative to their directory.
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            self.patterns += 1;
            if self.patterns > MAX_PATTERNS {
                return Err(format!("there are more than {MAX_PATTERNS} patterns"));
            }
            // git ignores patterns with errors too.
            let _ = builder.add_line(None, line);
        }
        let patterns = builder.build().map_err(|error| error.to_string())?;
        self.levels.push(Level { at, patterns });
        Ok(())
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
