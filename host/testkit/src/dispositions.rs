//! Default dispositions of signals for the processes that tests start.
//!
//! A process takes over from its parent which signals are ignored, and `nohup` or a shell's `&` ignores some. Those that are
//! handled are at their default again once another program is started, so signals that are ignored here get a handler
//! that does nothing: children have the default, and this process goes on not to notice.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::Once;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Makes sure that processes started from now on do not ignore the signals that end a process.
pub(crate) fn reset_for_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in ignored().unwrap_or_default() {
            // A system that refuses it fails the test that sends the signal.
            let _ = signal_hook::flag::register(signal, Arc::default());
        }
    });
}

/// The signals of interest that this process ignores; none where the system does not tell.
fn ignored() -> io::Result<Vec<i32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok([SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| is_ignored(&status, *signal)).collect())
}

/// Returns true if the text of a `/proc/PID/status` says that the process ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in a process of this test that was started with signals ignored.
    const INNER: &str = "CODEBOX_TEST_DISPOSITIONS";

    #[test]
    fn children_of_a_test_under_nohup_do_not_ignore_signals() {
        if std::env::var_os(INNER).is_some() {
            assert_eq!(ignored().expect("it can be read"), [SIGHUP, SIGINT, SIGQUIT], "the outer process ignores them");
            reset_for_children();
            let child = Command::new("cat").arg("/proc/self/status").output().expect("cat starts");
            let status = String::from_utf8(child.stdout).expect("text");
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                assert!(!is_ignored(&status, signal), "signal {signal}: {status}");
            }
            return;
        }
        let test = std::env::current_exe().expect("it has a path");
        let name = "dispositions::tests::children_of_a_test_under_nohup_do_not_ignore_signals";
        let mut nohup = Command::new("nohup");
        // As a shell does with what it runs in the background.
        nohup.args(["env", "--ignore-signal=INT,QUIT"]).arg(test).args(["--exact", name]).env(INNER, "1");
        let ran = nohup.output().expect("nohup starts");
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }
}
