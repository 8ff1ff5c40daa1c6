//! Default signal dispositions for the processes that tests start.
//!
//! A process inherits ignored signals from its parent, and `nohup` or a shell's `&` ignores some. `exec` resets handled
//! signals to their default but leaves ignored signals ignored. Signals that this process ignores therefore get a
//! handler that does nothing: child processes start with the default, and this process still does not react to the
//! signal.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::Once;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Ensures that processes started from now on do not ignore the termination signals.
pub(crate) fn reset_for_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in ignored().unwrap_or_default() {
            // If the system refuses the handler, the test that sends the signal fails.
            let _ = signal_hook::flag::register(signal, Arc::default());
        }
    });
}

/// Returns those of `SIGHUP`, `SIGINT`, `SIGQUIT` and `SIGTERM` that this process ignores.
fn ignored() -> io::Result<Vec<i32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok([SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| is_ignored(&status, *signal)).collect())
}

/// Returns true if the text of `/proc/PID/status` lists the signal as ignored.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    /// Variable that is set in the copy of this test that was started with signals ignored.
    const INNER: &str = "CODEBOX_TEST_DISPOSITIONS";

    #[test]
    fn children_of_a_test_under_nohup_do_not_ignore_signals() {
        if std::env::var_os(INNER).is_some() {
            assert_eq!(ignored().expect("can be read"), [SIGHUP, SIGINT, SIGQUIT], "the outer process ignores them");
            reset_for_children();
            let child = Command::new("cat").arg("/proc/self/status").output().expect("cat starts");
            let status = String::from_utf8(child.stdout).expect("text");
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                assert!(!is_ignored(&status, signal), "signal {signal}: {status}");
            }
            return;
        }
        let test = std::env::current_exe().expect("has a path");
        let name = "dispositions::tests::children_of_a_test_under_nohup_do_not_ignore_signals";
        let mut nohup = Command::new("nohup");
        // A shell ignores the same signals for its background jobs.
        nohup.args(["env", "--ignore-signal=INT,QUIT"]).arg(test).args(["--exact", name]).env(INNER, "1");
        let nohup_output = nohup.output().expect("nohup starts");
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&nohup_output.stdout),
            String::from_utf8_lossy(&nohup_output.stderr)
        );
        assert!(nohup_output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
