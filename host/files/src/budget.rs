//! Limits on the inspection of a job's files: bytes read, and cancellation by the caller.

use codebox_core::CancelToken;

/// The number of bytes that may still be read.
///
/// The apparent size of files can exceed the bytes that a guest may write by far: files may be sparse and may have
/// several names.
#[derive(Clone)]
pub struct Budget {
    max_bytes: Option<u64>,
    remaining: u64,
    cancel: CancelToken,
}

impl Budget {
    /// Creates a budget of as many bytes as a job may write, without a bound if that is unlimited.
    #[must_use]
    pub fn new(max_bytes: Option<u64>, cancel: CancelToken) -> Self {
        Self { max_bytes, remaining: max_bytes.unwrap_or(u64::MAX), cancel }
    }

    /// Deducts the whole length of a file. Returns false if the budget is too small.
    pub(crate) fn take(&mut self, len: u64) -> bool {
        let fits = len <= self.remaining && !self.was_cancelled();
        if fits {
            self.remaining -= len;
        }
        fits
    }

    /// Returns true if the caller has cancelled.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the reason why a file does not fit.
    pub(crate) fn refusal(&self) -> String {
        match self.max_bytes {
            _ if self.was_cancelled() => "the run was cancelled".to_owned(),
            Some(max_bytes) => format!("the files would exceed the disk limit of {max_bytes} bytes"),
            None => "it is too large".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deducts_lengths_up_to_limit() {
        let mut budget = Budget::new(Some(10), CancelToken::new());
        assert!(budget.take(4) && budget.take(6) && budget.take(0));
        assert!(!budget.take(1));
        assert!(budget.refusal().contains("10 bytes"));
    }

    #[test]
    fn cancelled_budget_allows_no_reads() {
        let cancel = CancelToken::new();
        let mut budget = Budget::new(None, cancel.clone());
        assert!(budget.take(u64::MAX / 2));
        cancel.cancel();
        assert!(!budget.take(0));
    }
}
