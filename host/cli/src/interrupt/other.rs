//! Signals on systems where Ctrl-C is the only one.

/// The Ctrl-C event.
pub(crate) struct Signals {
    is_empty: bool,
}

impl Signals {
    /// Returns the signals that this process was not started to ignore.
    pub(crate) const fn handled() -> Self {
        Self { is_empty: false }
    }

    /// Returns Ctrl-C, and the other signals, of which there are none.
    pub(crate) const fn split(self) -> (Self, Self) {
        (self, Self { is_empty: true })
    }

    /// Calls `handled` at each signal.
    pub(crate) fn each(self, handled: impl Fn() + Send + 'static) {
        if !self.is_empty {
            let _ = ctrlc::set_handler(handled);
        }
    }
}
