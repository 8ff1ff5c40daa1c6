//! The terminal of this process.

use std::sync::Mutex;

use codebox_core::{InputMode, InputModes, WindowSize};
use rustix::termios::{
    InputModes as InputFlags, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize,
    tcsetattr,
};

/// Settings of the terminal before a program has changed its mode.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

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

/// Terminal at standard input whose modes a program changes. [`restore`] restores the mode before.
pub(crate) struct ProgramModes(Termios);

impl ProgramModes {
    /// Returns the modes, unless standard input is no terminal.
    pub(crate) fn of_terminal() -> Option<Self> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        *lock() = Some(before.clone());
        Some(Self(before))
    }
}

impl InputModes for ProgramModes {
    fn set(&self, mode: InputMode) {
        let mut settings = self.0.clone();
        if mode != InputMode::Lines {
            settings.local_modes -= LocalModes::ECHO;
        }
        if mode == InputMode::Keys {
            // Keys that send signals keep their meaning: a program cannot prevent its end.
            settings.local_modes -= LocalModes::ICANON | LocalModes::IEXTEN;
            settings.input_modes -= InputFlags::ICRNL | InputFlags::IXON;
            settings.special_codes[SpecialCodeIndex::VMIN] = 1;
            settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        let before = lock();
        // The run may have ended.
        if before.is_some() {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &settings);
        }
    }
}

/// Restores the mode of the terminal after a program, which can no longer change it.
pub(crate) fn restore() {
    if let Some(before) = lock().take() {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
