//! What looking through a job's files may cost the host: bytes read, and the caller's patience.

use codebox_core::CancelToken;

/// Bytes that may still be read.
///
/// Files can be far longer than what a guest was allowed to write: they have holes, and one file has many names.
#[derive(Clone)]
pub struct Budget {
    most: Option<u64>,
    left: u64,
    cancel: CancelToken,
}

impl Budget {
    /// A budget of as many bytes as a job may write, or any number where that is unlimited.
    #[must_use]
    pub fn new(most: Option<u64>, cancel: CancelToken) -> Self {
        Self { most, left: most.unwrap_or(u64::MAX), cancel }
    }

    /// Takes a file's whole length out; tells whether it was there.
    pub(crate) fn take(&mut self, len: u64) -> bool {
        let fits = len <= self.left && !self.is_over();
        if fits {
            self.left -= len;
        }
        fits
    }

    /// Whether the caller wants no more.
    pub(crate) fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Why something could not be taken.
    pub(crate) fn refusal(&self) -> String {
        match self.most {
            _ if self.is_over() => "the run was cancelled".to_owned(),
            Some(most) => format!("with it the files would be longer than the limit of {most} bytes on disk"),
            None => "it is too long".to_owned(),
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
