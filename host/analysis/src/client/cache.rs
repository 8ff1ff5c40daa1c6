//! Cache of the analyzer's answers, because a server often runs the same texts.
//!
//! An answer is stored with its whole text, so no other text can receive it.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::protocol::Task;

/// The largest total size of texts and answers, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// The largest size of one entry, in bytes.
const MOST_OF_ONE: usize = 256 << 10;

/// The largest number of entries.
const MOST_ANSWERS: usize = 256;

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
        let is_it = |entry: &Entry| entry.hash == hash && entry.task == *task && *entry.text == *text;
        let at = entries.latest.iter().rposition(is_it)?;
        let entry = entries.latest.remove(at)?;
        let answer = Arc::clone(&entry.answer);
        entries.latest.push_back(entry);
        Some(answer)
    }

    /// Adds an answer and removes the oldest ones beyond the bounds.
    pub(super) fn put(&self, task: Task, text: &str, answer: &[u8]) {
        let entry = Entry { hash: self.hasher.hash_one(text), task, text: text.into(), answer: answer.into() };
        if entry.bytes() > MOST_OF_ONE {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes += entry.bytes();
        entries.latest.push_back(entry);
        while entries.bytes > MOST_BYTES || entries.latest.len() > MOST_ANSWERS {
            let Some(oldest) = entries.latest.pop_front() else { break };
            entries.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_latest_within_its_bounds() {
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
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES - MOST_OF_ONE, "{bytes}");
        cache.put(Task::IsPython, &" ".repeat(MOST_OF_ONE), b"true");
        assert_eq!(cache.get(&Task::IsPython, &" ".repeat(MOST_OF_ONE)), None);
        (0..1000).for_each(|n| cache.put(Task::IsPython, &n.to_string(), b"true"));
        assert_eq!(cache.entries.lock().expect("no panic").latest.len(), MOST_ANSWERS);
    }
}
