//! Runs of the program and formatting of their results.

use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::{Codebox, Kit, ProcessResult, redact};
use tempfile::TempDir;

/// Returns the program with a runtime in its home.
///
/// # Panics
/// Panics if the runtime is unavailable, because most of these tests are meaningless without one.
pub fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let kit = unprepared_kit();
        if let Err(error) = kit.prepare() {
            panic!("{error:#}");
        }
        kit
    })
}

/// Returns the program without a prepared runtime.
pub fn unprepared_kit() -> Kit {
    Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"))
}

/// Creates a temporary directory.
pub fn folder() -> TempDir {
    unprepared_kit().folder().expect("a directory for the test")
}

static IMAGES: RwLock<()> = RwLock::new(());

/// Locks the list of images, to change it, while the guard lives.
pub fn lock_images() -> RwLockWriteGuard<'static, ()> {
    IMAGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the list of images as it is while the guard lives.
pub fn keep_images() -> RwLockReadGuard<'static, ()> {
    IMAGES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command line in a directory.
pub fn run_in(folder: &Path, args: &[&str]) -> ProcessResult {
    run(kit().codebox().args(args.iter().copied()).folder(folder))
}

/// Runs a command to its end, with unreachable container engines.
pub fn run(codebox: Codebox) -> ProcessResult {
    let codebox = codebox.env("DOCKER_HOST", "unix:///no/docker.sock").env("CONTAINER_HOST", "unix:///no/podman.sock");
    let result = codebox.run().expect("the program starts");
    assert!(!result.timed_out, "timed out: {}", result.stderr_text());
    assert_eq!(result.signal, None, "{}", result.stderr_text());
    result
}

/// Formats status, standard output and standard error as one text.
pub fn format_result(result: &ProcessResult, redactions: &[(&Path, &str)]) -> String {
    let mut text = format!("status {}\n", result.code.unwrap_or(-1));
    for (name, output) in [("stdout", result.stdout_text()), ("stderr", result.stderr_text())] {
        if !output.is_empty() {
            text.push_str(&format!("--- {name}\n{}", redact(&output, redactions)));
        }
    }
    text
}

/// Runs a command line in `folder` and formats its result.
pub fn run_and_format(folder: &Path, args: &[&str]) -> String {
    let result = run_in(folder, args);
    let canonical = folder.canonicalize().expect("folder exists");
    format_result(&result, &[(&canonical, "FOLDER"), (folder, "FOLDER"), (kit().home(), "HOME")])
}

/// Checks that a failure is reported in one line that contains `expected` and one line with a fix. Only progress lines may
/// precede them.
#[track_caller]
pub fn assert_one_line(result: &ProcessResult, status: i32, expected: &str) {
    let stderr = result.stderr_text();
    let progress_lines = stderr.lines().filter(|line| line.starts_with("codebox: ")).count().saturating_sub(1);
    let lines: Vec<&str> = stderr.lines().skip(progress_lines).collect();
    assert_eq!(result.code, Some(status), "{stderr}");
    assert!(progress_lines <= 1, "{stderr}");
    assert!(result.stdout.is_empty(), "{}", result.stdout_text());
    assert!(lines.first().is_some_and(|line| line.starts_with("codebox: ") && line.contains(expected)), "{stderr}");
    assert!(lines.get(1).is_none_or(|line| line.starts_with("  fix: ")), "{stderr}");
    assert!(lines.len() <= 2, "{stderr}");
}

/// Maximum time for a process to reach a state. It is far longer than needed.
const STATE_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < STATE_TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}
