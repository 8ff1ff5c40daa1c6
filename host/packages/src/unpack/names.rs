//! Names of archive members: the raw list, and the check of each name.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Signature of an entry in a zip archive's central directory.
const ENTRY_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
/// Length of an entry before its name, in bytes.
const ENTRY_HEADER_SIZE: usize = 46;

/// Lists every name in the central directory that starts at `start`, in order and including duplicates.
///
/// The zip crate keeps only the last member with a name, and other readers may choose another one, so duplicates must
/// be detected here.
pub(super) fn raw_names(file: &File, start: u64, max_members: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(start))?;
    let mut names = Vec::new();
    // One name more than allowed suffices for the caller to refuse the archive.
    while names.len() <= max_members {
        let mut entry = [0; ENTRY_HEADER_SIZE];
        file.read_exact(&mut entry[..4])?;
        if entry[..4] != ENTRY_SIGNATURE {
            break;
        }
        file.read_exact(&mut entry[4..])?;
        let length = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let mut name = vec![0; usize::from(length(28))];
        file.read_exact(&mut name)?;
        names.push(name);
        file.seek_relative(i64::from(length(30)) + i64::from(length(32)))?;
    }
    Ok(names)
}

/// Maximum length of a member's path in bytes: some systems do not accept a longer path.
const MAX_PATH_LENGTH: usize = 1024;

/// Maximum depth of a member: each level is a directory that must be created.
const MAX_DEPTH: usize = 64;

/// Returns true if a name is relative, stays below its directory, and is the same file for every reader and system.
pub(crate) fn is_safe_path(name: &str) -> bool {
    // The entry of a directory ends in a slash.
    let path = name.strip_suffix('/').unwrap_or(name);
    path.len() <= MAX_PATH_LENGTH && path.split('/').all(is_safe_component) && path.split('/').count() <= MAX_DEPTH
}

/// Truncates a name for an error message.
pub(super) fn truncated(name: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 200;
    let mut truncated: String = name.chars().take(MAX_SHOWN_CHARS).collect();
    if truncated.len() < name.len() {
        truncated.push('…');
    }
    truncated
}

fn is_safe_component(part: &str) -> bool {
    !matches!(part, "" | "." | "..")
        && part.len() <= 255
        // On Windows, `\` is a separator, `:` follows a drive or precedes a stream, and trailing dots and spaces are
        // dropped.
        && !part.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
        && !part.ends_with(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::is_safe_path;

    #[test]
    fn accepts_ordinary_names() {
        for name in ["a", "a/b.txt", "a/", "a/b c/é", "..a/...b", ".hidden"] {
            assert!(is_safe_path(name), "{name:?}");
        }
    }

    #[test]
    fn rejects_unsafe_names() {
        let long = "x".repeat(256);
        let deep = "a/".repeat(64) + "a";
        let wide = format!("{long}/", long = "x".repeat(200)).repeat(6) + "a";
        let bad = [
            "", "/", "/a", "//a", "a//b", "a//", ".", "..", "../a", "a/..", "a/../b", "./a", "a/.", "a\\b", "..\\a",
            "C:/a", "C:", "a:b", "a\0b", "a\nb", "a.", "a ", "a./b", &long, &deep, &wide,
        ];
        for name in bad {
            assert!(!is_safe_path(name), "{name:?}");
        }
    }
}
