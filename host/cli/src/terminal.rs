//! The terminal of this process.

use std::sync::Mutex;

use codebox_core::{InputMode, InputModes, WindowSize};
use rustix::termios::{
    InputModes as InputFlags, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};

/// State of the terminal of a program.
enum State {
    /// No program may change the mode.
    Free,
    /// A program may change the mode.
    Used,
    /// A program has changed the mode, which was this one.
    Changed(Termios),
}

static STATE: Mutex<State> = Mutex::new(State::Free);

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
    /// Returns the modes, unless standard input is no terminal, or that of other processes: a change from the background stops a process.
    pub(crate) fn of_terminal() -> Option<Self> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        if tcgetpgrp(rustix::stdio::stdin()).ok()? != rustix::process::getpgrp() {
            return None;
        }
        *lock() = State::Used;
        Some(Self(before))
    }
}

impl InputModes for ProgramModes {
    fn set(&self, mode: InputMode) {
        let mut state = lock();
        match *state {
            State::Free => return,
            State::Used if mode == InputMode::Lines => return,
            State::Used | State::Changed(_) => {}
        }
        let mut settings = self.0.clone();
        if mode != InputMode::Lines {
            settings.local_modes -= LocalModes::ECHO;
            // The key that cancels keeps its meaning. The others would leave the terminal in this mode.
            settings.special_codes[SpecialCodeIndex::VQUIT] = 0;
            settings.special_codes[SpecialCodeIndex::VSUSP] = 0;
        }
        if mode == InputMode::Keys {
            settings.local_modes -= LocalModes::ICANON | LocalModes::IEXTEN;
            settings.input_modes -= InputFlags::ICRNL | InputFlags::IXON;
            settings.special_codes[SpecialCodeIndex::VMIN] = 1;
            settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        *state = State::Changed(self.0.clone());
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &settings);
    }

    fn size(&self) -> Option<WindowSize> {
        Some(size())
    }
}

/// Restores the mode of the terminal after a program, which can no longer change it.
pub(crate) fn restore() {
    if let State::Changed(before) = std::mem::replace(&mut *lock(), State::Free) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}

fn lock() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
