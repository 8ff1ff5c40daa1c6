//! The terminal of this process.

use codebox_core::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Returns the size of the terminal at standard input, or a usual one.
pub(crate) fn size() -> WindowSize {
    match tcgetwinsize(rustix::stdio::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => WindowSize { rows: size.ws_row, columns: size.ws_col },
        _ => WindowSize { rows: 24, columns: 80 },
    }
}

/// Calls a function when the size of the terminal changes, until it returns false.
pub(crate) fn on_resize(mut changed: impl FnMut() -> bool + Send + 'static) {
    let Ok((mut reader, writer)) = std::io::pipe() else { return };
    if signal_hook::low_level::pipe::register(signal_hook::consts::SIGWINCH, writer).is_err() {
        return;
    }
    std::thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = std::io::Read::read(&mut reader, &mut byte) {
            if !changed() {
                return;
            }
        }
    });
}

/// The terminal in the mode in which it passes all keys on. Dropping it restores the mode before.
pub(crate) struct RawTerminal(Option<Termios>);

impl RawTerminal {
    pub(crate) fn enter() -> Self {
        let Ok(before) = tcgetattr(rustix::stdio::stdin()) else { return Self(None) };
        let mut raw = before.clone();
        raw.make_raw();
        let is_set = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).is_ok();
        Self(is_set.then_some(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}
