//! Cache of the analyzer's answers, because a server often runs the same texts.
//!
//! An answer is stored with its whole text, so no other text can receive it.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::protocol::Task;

/// The largest total size of texts and answers, in bytes.
const MAX_TOTAL_BYTES: usize = 4 << 20;

/// The largest size of one entry, in bytes.
const MAX_ENTRY_BYTES: usize = 256 << 10;

/// The largest number of entries.
const MAX_ENTRIES: usize = 256;

/// Recently used answers, within the bounds.
#[derive(Default)]
pub(super) struct Cache {
    hasher: RandomState,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// The entries; the most recently used is last.
    latest: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    hash: u64,
    task: Task,
    text: Box<str>,
    answer: Arc<[u8]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.text.len() + self.answer.len()
    }
}

impl Cache {
    /// Returns the cached answer to a task with a text.
    pub(super) fn get(&self, task: &Task, text: &str) -> Option<Arc<[u8]>> {
        let hash = self.hasher.hash_one(text);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_match = |entry: &Entry| entry.hash == hash && entry.task == *task && *entry.text == *text;
        let at = entries.latest.iter().rposition(is_match)?;
        let entry = entries.latest.remove(at)?;
        let answer = Arc::clone(&entry.answer);
        entries.latest.push_back(entry);
        Some(answer)
    }

    /// Adds an answer and removes the oldest ones beyond the bounds.
    pub(super) fn put(&self, task: Task, text: &str, answer: &[u8]) {
        let entry = Entry { hash: self.hasher.hash_one(text), task, text: text.into(), answer: answer.into() };
        if entry.bytes() > MAX_ENTRY_BYTES {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes += entry.bytes();
        entries.latest.push_back(entry);
        while entries.bytes > MAX_TOTAL_BYTES || entries.latest.len() > MAX_ENTRIES {
            let Some(oldest) = entries.latest.pop_front() else { break };
            entries.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_oldest_entries_beyond_bounds() {
        let cache = Cache::default();
        let text = |n: usize| format!("{n}{}", " ".repeat(100 << 10));
        for n in 0..=40 {
            cache.put(Task::IsPython, &text(n), b"true");
            assert!(cache.get(&Task::IsPython, &text(0)).is_some(), "{n}");
        }
        // The first entry was used in every round, and the second was removed.
        assert!(cache.get(&Task::IsPython, &text(0)).is_some() && cache.get(&Task::IsPython, &text(1)).is_none());
        assert_eq!(cache.get(&Task::PythonNeeds, &text(0)), None);
        let bytes = cache.entries.lock().expect("no panic").bytes;
        assert!(bytes <= MAX_TOTAL_BYTES && bytes > MAX_TOTAL_BYTES - MAX_ENTRY_BYTES, "{bytes}");
        cache.put(Task::IsPython, &" ".repeat(MAX_ENTRY_BYTES), b"true");
        assert_eq!(cache.get(&Task::IsPython, &" ".repeat(MAX_ENTRY_BYTES)), None);
        (0..1000).for_each(|n| cache.put(Task::IsPython, &n.to_string(), b"true"));
        assert_eq!(cache.entries.lock().expect("no panic").latest.len(), MAX_ENTRIES);
    }
}
