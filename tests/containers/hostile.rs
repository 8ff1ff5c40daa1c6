//! C5, C13 and C14: an image that is hostile in every part starts like any other.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::ground::Ground;
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("C13::nothing_of_it_runs", nothing_of_it_runs),
        row("C13::volume", volume),
        row("C14::tools", tools),
        row("C5::working_directory", working_directory),
        row("C5::grant_below_a_link", grant_below_a_link),
        row("C5::grant_over_a_file", grant_over_a_file),
    ]
}

/// Checks for the mark that the image's programs leave whenever they run.
fn unmarked() -> Result<()> {
    ensure!(fs::symlink_metadata("/canary").is_err(), "the image wrote to /canary of the host");
    Ok(())
}

fn bash(ground: &Ground, script: &str) -> Result<codebox_testkit::Report> {
    let report = ground.ends("ok", 0, ground.run_hostile().args(["--", "/bin/bash", "-c", script]))?;
    unmarked()?;
    Ok(report)
}

/// Entry point, health check and preloaded library do not run, and the job is unprivileged, whatever the image
/// declares.
fn nothing_of_it_runs(ground: &Ground) -> Result<()> {
    // The sleep exceeds the interval of the image's own health check.
    let look = "sleep 2; ls /canary; id -u; tr '\\0' ' ' </proc/1/cmdline; grep -c evil /proc/self/maps; :";
    let report = bash(ground, look)?;
    ensure!(!report.stderr().contains("codebox-hostile"), "something of the image ran: {}", report.stderr());
    let lines: Vec<&str> = report.stdout().lines().collect();
    ensure!(lines.first().and_then(|id| id.parse::<u32>().ok()).is_some_and(|id| id >= 1000), "{lines:?}");
    ensure!(lines.last() == Some(&"/.codebox/agent serve 0"), "{lines:?}");
    Ok(())
}

/// A volume that the image declares is not writable.
fn volume(ground: &Ground) -> Result<()> {
    let report =
        bash(ground, "touch /vol/x && echo written; ls -A /vol; grep ' /vol ' /proc/self/mountinfo | cut -d' ' -f6")?;
    let options: Vec<&str> = report.stdout().trim().split(',').collect();
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        ensure!(options.contains(&option), "it is not {option}: {}", report.stdout());
    }
    Ok(())
}

/// Files are copied in and out without any archiver of the image, on the host or in the container.
fn tools(ground: &Ground) -> Result<()> {
    let out = ground.kit.folder()?;
    let program = out.path().join("in.py");
    fs::write(
        &program,
        "import os\nos.makedirs('a/b')\nopen('a/b/out.bin', 'wb').write(bytes(range(256)))\nprint(os.path.exists('/canary'))",
    )?;
    let brought = out.path().join("out");
    let job = ground.run_hostile().args(["--out"]).arg(&brought).arg(&program);
    let report = ground.ends("ok", 0, job)?;
    ensure!(report.stdout() == "False\n", "something of the image ran: {}", report.stdout());
    ensure!(fs::read(brought.join("a/b/out.bin"))? == (0..=255).collect::<Vec<u8>>(), "the file changed on its way");
    unmarked()
}

/// The image's working directory is a link to open descriptors; a job still starts in its own working directory.
fn working_directory(ground: &Ground) -> Result<()> {
    let report = bash(ground, "pwd; readlink /proc/self/cwd; cat /proc/self/fd/*/etc/hostname 2>/dev/null; :")?;
    ensure!(report.stdout() == "/work\n/work\n", "it starts in {}", report.stdout());
    // All descriptors that an engine's runtime may have left open are tried from inside.
    let sweep = "for fd in {3..40}; do cd /proc/1/fd/$fd 2>/dev/null && pwd -P; cd /proc/self/fd/$fd/.. 2>/dev/null && pwd -P; done; :";
    let report = bash(ground, sweep)?;
    ensure!(report.stdout().is_empty(), "a descriptor leads to {}", report.stdout());
    Ok(())
}

/// A guest path that a link in the image redirects is refused, and the granted directory stays unchanged.
fn grant_below_a_link(ground: &Ground) -> Result<()> {
    for place in ["/fds", "/fds/7", "/fds/7/x"] {
        unusable(ground, place)?;
    }
    Ok(())
}

/// A guest path that is a file of the image is refused.
fn grant_over_a_file(ground: &Ground) -> Result<()> {
    unusable(ground, "/hostile")
}

fn unusable(ground: &Ground, place: &str) -> Result<()> {
    let job = ground.run_hostile().grant(&ground.canaries.grant(), place, "rw");
    let ran = job.args(["--", "/bin/bash", "-c", "echo it ran"]).run()?;
    ensure!(!ran.hung && ran.signal.is_none(), "{place}: it hung or died");
    let report = ran.report()?;
    let refused = matches!(report.kind(), "path_rejected" | "image_error" | "invalid_request");
    ensure!(refused, "{place}: it ended as {:.900}", report.json().to_string());
    // A container that failed to start is removed before codebox ends.
    ensure!(ground.containers()?.is_empty(), "{place}: a container was left");
    ensure!(fs::read_dir(ground.canaries.grant())?.next().is_none(), "{place}: the grant is empty no more");
    ensure!(!Path::new("/canary").exists(), "{place}: the image ran");
    ground.canaries.check(&ran)
}
