//! C5, C13 and C14: an image that is hostile in every part starts like any other.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("C13::image_programs_do_not_run", image_programs_do_not_run),
        row("C13::volume", volume),
        row("C14::copies_without_image_tools", copies_without_image_tools),
        row("C5::working_directory", working_directory),
        row("C5::grant_below_a_link", grant_below_a_link),
        row("C5::grant_over_a_file", grant_over_a_file),
    ]
}

/// Checks for the mark that the image's programs leave whenever they run.
fn check_image_left_no_mark() -> Result<()> {
    ensure!(fs::symlink_metadata("/canary").is_err(), "the image wrote to /canary of the host");
    Ok(())
}

fn run_bash(test_env: &TestEnvironment, script: &str) -> Result<codebox_testkit::Report> {
    let report = test_env.run_expecting("ok", 0, test_env.run_hostile().args(["--", "/bin/bash", "-c", script]))?;
    check_image_left_no_mark()?;
    Ok(report)
}

/// Entry point, health check and preloaded library do not run, and the job is unprivileged, whatever the image
/// declares.
fn image_programs_do_not_run(test_env: &TestEnvironment) -> Result<()> {
    // The sleep exceeds the interval of the image's own health check.
    let commands = "sleep 2; ls /canary; id -u; tr '\\0' ' ' </proc/1/cmdline; grep -c evil /proc/self/maps; :";
    let report = run_bash(test_env, commands)?;
    ensure!(!report.stderr().contains("codebox-hostile"), "a program of the image ran: {}", report.stderr());
    let lines: Vec<&str> = report.stdout().lines().collect();
    ensure!(lines.first().and_then(|id| id.parse::<u32>().ok()).is_some_and(|id| id >= 1000), "{lines:?}");
    let is_agent = |line: &&str| line.starts_with("/.codebox/agent serve core=0 ") && line.ends_with(" 0");
    ensure!(lines.last().is_some_and(is_agent), "{lines:?}");
    Ok(())
}

/// A volume that the image declares is not writable.
fn volume(test_env: &TestEnvironment) -> Result<()> {
    let report = run_bash(
        test_env,
        "touch /vol/x && echo written; ls -A /vol; grep ' /vol ' /proc/self/mountinfo | cut -d' ' -f6",
    )?;
    let options: Vec<&str> = report.stdout().trim().split(',').collect();
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        ensure!(options.contains(&option), "option {option} is missing: {}", report.stdout());
    }
    Ok(())
}

/// Files are copied in and out without any archiver of the image, on the host or in the container.
fn copies_without_image_tools(test_env: &TestEnvironment) -> Result<()> {
    let out = test_env.kit.folder()?;
    let program = out.path().join("in.py");
    fs::write(
        &program,
        "import os\nos.makedirs('a/b')\nopen('a/b/out.bin', 'wb').write(bytes(range(256)))\nprint(os.path.exists('/canary'))",
    )?;
    let copied_dir = out.path().join("out");
    let job = test_env.run_hostile().args(["--out"]).arg(&copied_dir).arg(&program);
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout() == "False\n", "a program of the image ran: {}", report.stdout());
    ensure!(
        fs::read(copied_dir.join("a/b/out.bin"))? == (0..=255).collect::<Vec<u8>>(),
        "the file changed during copying"
    );
    check_image_left_no_mark()
}

/// The image's working directory is a link to open descriptors; a job still starts in its own working directory.
fn working_directory(test_env: &TestEnvironment) -> Result<()> {
    let report = run_bash(test_env, "pwd; readlink /proc/self/cwd; cat /proc/self/fd/*/etc/hostname 2>/dev/null; :")?;
    ensure!(report.stdout() == "/work\n/work\n", "working directory is {}", report.stdout());
    // All descriptors that an engine's runtime may have left open are tried from inside.
    let sweep = "for fd in {3..40}; do cd /proc/1/fd/$fd 2>/dev/null && pwd -P; cd /proc/self/fd/$fd/.. 2>/dev/null && pwd -P; done; :";
    let report = run_bash(test_env, sweep)?;
    ensure!(report.stdout().is_empty(), "a descriptor refers to {}", report.stdout());
    Ok(())
}

/// A guest path that a link in the image redirects is refused, and the granted directory stays unchanged.
fn grant_below_a_link(test_env: &TestEnvironment) -> Result<()> {
    for guest_path in ["/fds", "/fds/7", "/fds/7/x"] {
        check_rejected(test_env, guest_path)?;
    }
    Ok(())
}

/// A guest path that is a file of the image is refused.
fn grant_over_a_file(test_env: &TestEnvironment) -> Result<()> {
    check_rejected(test_env, "/hostile")
}

fn check_rejected(test_env: &TestEnvironment, guest_path: &str) -> Result<()> {
    let job = test_env.run_hostile().grant(&test_env.canaries.grant(), guest_path, "rw");
    let result = job.args(["--", "/bin/bash", "-c", "echo it ran"]).run()?;
    ensure!(!result.timed_out && result.signal.is_none(), "{guest_path}: timed out or ended by a signal");
    let report = result.report()?;
    let refused = matches!(report.kind(), "path_rejected" | "image_error" | "invalid_request");
    ensure!(refused, "{guest_path}: unexpected result: {:.900}", report.json().to_string());
    // A container that failed to start is removed before codebox ends.
    ensure!(test_env.containers()?.is_empty(), "{guest_path}: a container was left");
    ensure!(fs::read_dir(test_env.canaries.grant())?.next().is_none(), "{guest_path}: the grant is not empty");
    ensure!(!Path::new("/canary").exists(), "{guest_path}: the image ran");
    test_env.canaries.check(&result)
}
