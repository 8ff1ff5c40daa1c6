//! Where Ctrl-C is the only word that a process gets.

/// Ctrl-C.
pub(crate) struct Signals;

impl Signals {
    /// Those that this process has not been started to ignore.
    pub(crate) const fn heard() -> Self {
        Self
    }

    /// Calls `heard` at each of them.
    pub(super) fn each(self, heard: impl Fn() + Send + 'static) {
        let _ = ctrlc::set_handler(heard);
    }
}
