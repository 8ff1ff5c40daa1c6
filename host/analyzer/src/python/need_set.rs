//! Collection of needs.

use codebox_analysis::{Capability, Need, Weight};

/// The largest number of needs of one weight that are kept. A hostile text may show any number of needs.
const MAX_NEEDS_PER_WEIGHT: usize = 32;

/// The needs found so far, without duplicates.
#[derive(Default)]
pub(super) struct NeedSet(Vec<(usize, Need)>);

impl NeedSet {
    /// Adds a need that the text shows at a byte offset. A need that is required at one place is required.
    pub(super) fn add(&mut self, power: Capability, words: String, weight: Weight, at: usize) {
        let same = |(_, need): &&mut (usize, Need)| need.power == power && need.words == words;
        if let Some((known_at, need)) = self.0.iter_mut().find(same) {
            if weight < need.weight {
                (*known_at, need.weight) = (at, weight);
            }
            return;
        }
        if self.0.iter().filter(|(_, need)| need.weight == weight).count() < MAX_NEEDS_PER_WEIGHT {
            self.0.push((at, Need { power, weight, line: 0, words }));
        }
    }

    /// Returns the needs in the order of the text, with their lines.
    pub(super) fn in_order(mut self, text: &str) -> Vec<Need> {
        self.0.sort_by_key(|(at, _)| *at);
        let (mut line, mut seen) = (1, 0);
        let mut needs = Vec::with_capacity(self.0.len());
        for (at, mut need) in self.0 {
            let between = text.as_bytes().get(seen..at).unwrap_or_default();
            line += between.iter().filter(|byte| **byte == b'\n').count();
            seen = seen.max(at);
            need.line = u32::try_from(line).unwrap_or(u32::MAX);
            needs.push(need);
        }
        needs
    }
}
