//! Signals by which a terminal, a shell, a service manager or a timeout asks a process to end.

use std::io::{ErrorKind, Read as _};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// `SIGINT`, `SIGTERM` and `SIGHUP`, without those that are ignored.
pub(crate) struct Signals(Vec<i32>);

impl Signals {
    /// Returns the signals that this process was not started to ignore, as under `nohup`.
    ///
    /// Called before the process confines itself, because it reads the ignored signals from a file.
    pub(crate) fn handled() -> Self {
        let ignored = ignored();
        Self([SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect())
    }

    /// Returns `SIGINT`, and the other signals.
    pub(crate) fn split(self) -> (Self, Self) {
        let (interrupt, others) = self.0.into_iter().partition(|signal| *signal == SIGINT);
        (Self(interrupt), Self(others))
    }

    /// Calls `handled` at each signal.
    pub(crate) fn each(self, handled: impl Fn() + Send + 'static) {
        if self.0.is_empty() {
            return;
        }
        let Ok((mut reader, writer)) = std::io::pipe() else { return };
        let listen = move || {
            let mut byte = [0];
            loop {
                match reader.read(&mut byte) {
                    Ok(1) => handled(),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => return,
                }
            }
        };
        // The thread starts before the handlers are installed, because without a reader the handlers would only discard
        // the signals.
        if thread::Builder::new().name("codebox-signals".into()).spawn(listen).is_err() {
            return;
        }
        for signal in self.0 {
            let Ok(writer) = writer.try_clone() else { return };
            let _ = pipe::register(signal, writer);
        }
    }
}

/// Returns the signals that this process ignores as a bit mask; 0 if the system does not report them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    read(&status).unwrap_or(0)
}

fn read(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ignored_signals() {
        // As under `nohup`: SIGHUP is the first.
        assert_eq!(read("Name:\tcodebox\nSigIgn:\t0000000000000001\nSigCgt:\t0\n"), Some(1));
        assert_eq!(read("SigIgn:\t0000000000001000\n"), Some(0x1000));
        for bad in ["", "SigIgn:", "SigIgn: g"] {
            assert_eq!(read(bad), None);
        }
    }
}
