//! Signals on systems where Ctrl-C is the only one.

/// The Ctrl-C event.
pub(crate) struct Signals;

impl Signals {
    /// Returns the signals that this process was not started to ignore.
    pub(crate) const fn handled() -> Self {
        Self
    }

    /// Calls `handled` at each signal.
    pub(crate) fn each(self, handled: impl Fn() + Send + 'static) {
        let _ = ctrlc::set_handler(handled);
    }
}
