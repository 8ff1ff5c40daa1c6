//! Limits on the inspection of a job's files: bytes read, and cancellation by the caller.

use codebox_core::CancelToken;

/// The number of bytes that may still be read.
///
/// The apparent size of files can exceed the bytes that a guest may write by far: files may be sparse and may have
/// several names.
#[derive(Clone)]
pub struct Budget {
    most: Option<u64>,
    left: u64,
    cancel: CancelToken,
}

impl Budget {
    /// Creates a budget of as many bytes as a job may write, without a bound if that is unlimited.
    #[must_use]
    pub fn new(most: Option<u64>, cancel: CancelToken) -> Self {
        Self { most, left: most.unwrap_or(u64::MAX), cancel }
    }

    /// Deducts the whole length of a file. Returns false if the budget is too small.
    pub(crate) fn take(&mut self, len: u64) -> bool {
        let fits = len <= self.left && !self.is_over();
        if fits {
            self.left -= len;
        }
        fits
    }

    /// Returns true if the caller has cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the reason why a file does not fit.
    pub(crate) fn refusal(&self) -> String {
        match self.most {
            _ if self.is_over() => "the run was cancelled".to_owned(),
            Some(most) => format!("the files would exceed the disk limit of {most} bytes"),
            None => "it is too large".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_add_up_to_the_limit() {
        let mut budget = Budget::new(Some(10), CancelToken::new());
        assert!(budget.take(4) && budget.take(6) && budget.take(0));
        assert!(!budget.take(1));
        assert!(budget.refusal().contains("10 bytes"));
    }

    #[test]
    fn a_cancelled_run_reads_nothing_more() {
        let cancel = CancelToken::new();
        let mut budget = Budget::new(None, cancel.clone());
        assert!(budget.take(u64::MAX / 2));
        cancel.cancel();
        assert!(!budget.take(0));
    }
}
