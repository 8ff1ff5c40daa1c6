//! Runs of the program and formatting of their results.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use codebox_testkit::{Codebox, Kit, Ran, redact};
use tempfile::TempDir;

/// Returns the program with a runtime in its home.
///
/// # Panics
/// Panics if the runtime is unavailable, because most of these tests are meaningless without one.
pub fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let kit = bare_kit();
        if let Err(error) = kit.prepare() {
            panic!("{error:#}");
        }
        kit
    })
}

/// Returns the program without a prepared runtime.
pub fn bare_kit() -> Kit {
    Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"))
}

/// Creates a temporary directory.
pub fn folder() -> TempDir {
    bare_kit().folder().expect("a directory for the test")
}

/// Locks the list of images while the guard lives.
pub fn images() -> MutexGuard<'static, ()> {
    static IMAGES: Mutex<()> = Mutex::new(());
    IMAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command line in a directory.
pub fn run_in(folder: &Path, args: &[&str]) -> Ran {
    run(kit().codebox().args(args.iter().copied()).folder(folder))
}

/// Runs a command to its end, with unreachable container engines.
pub fn run(codebox: Codebox) -> Ran {
    let codebox = codebox.env("DOCKER_HOST", "unix:///no/docker.sock").env("CONTAINER_HOST", "unix:///no/podman.sock");
    let ran = codebox.run().expect("the program starts");
    assert!(!ran.hung, "it hung: {}", ran.stderr_text());
    assert_eq!(ran.signal, None, "{}", ran.stderr_text());
    ran
}

/// Formats status, standard output and standard error as one text.
pub fn shown(ran: &Ran, places: &[(&Path, &str)]) -> String {
    let mut text = format!("status {}\n", ran.code.unwrap_or(-1));
    for (name, output) in [("stdout", ran.stdout_text()), ("stderr", ran.stderr_text())] {
        if !output.is_empty() {
            text.push_str(&format!("--- {name}\n{}", redact(&output, places)));
        }
    }
    text
}

/// Runs a command line in `folder` and formats its result.
pub fn shown_in(folder: &Path, args: &[&str]) -> String {
    let ran = run_in(folder, args);
    let canonical = folder.canonicalize().expect("the folder is there");
    shown(&ran, &[(&canonical, "FOLDER"), (folder, "FOLDER"), (kit().home(), "HOME")])
}

/// Checks that a failure is reported in one line that contains `named` and one line with a fix. Only progress lines may
/// precede them.
#[track_caller]
pub fn assert_one_line(ran: &Ran, status: i32, named: &str) {
    let said = ran.stderr_text();
    let steps = said.lines().filter(|line| line.starts_with("codebox: ")).count().saturating_sub(1);
    let lines: Vec<&str> = said.lines().skip(steps).collect();
    assert_eq!(ran.code, Some(status), "{said}");
    assert!(steps <= 1, "{said}");
    assert!(ran.stdout.is_empty(), "{}", ran.stdout_text());
    assert!(lines.first().is_some_and(|line| line.starts_with("codebox: ") && line.contains(named)), "{said}");
    assert!(lines.get(1).is_none_or(|line| line.starts_with("  fix: ")), "{said}");
    assert!(lines.len() <= 2, "{said}");
}
