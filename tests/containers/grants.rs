//! P9 and P10: the job sees exactly the granted directory, regardless of its name and the guest path.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::ProcessResult;

use crate::row::{Row, row};
use crate::running_jobs::{WAITING_PROGRAM, while_running};
use crate::test_env::TestEnvironment;

/// Names with a meaning for an engine's options, a shell or a terminal.
const NAMES: [&str; 20] = [
    "a b",
    "a:b",
    "a,b",
    "a=b",
    "a'b",
    "a\"b",
    "\"a\"",
    "ü",
    "u\u{308}",
    "-rf",
    "a\nb",
    "a\u{1b}[31mb",
    "~",
    "$HOME",
    "%41",
    "a\\b",
    "*",
    "...",
    "a,ro",
    "a,U=true",
];

/// Mount options that would redirect the mount; `OUTSIDE` stands for a directory that is not granted.
const OPTIONS: [&str; 7] = [
    ",src=OUTSIDE,U=true",
    ",src=OUTSIDE",
    ",source=OUTSIDE",
    ",src=OUTSIDE,ro",
    ",suid",
    ",dev,exec",
    ",bind-propagation=rshared",
];

pub fn rows() -> Vec<Row> {
    vec![
        row("P9::mount_sources", mount_sources),
        row("P9::swapped_while_running", swapped_while_running),
        row("P10::names_on_the_host", names_on_the_host),
        row("P10::names_in_the_guest", names_in_the_guest),
        row("P10::options_in_names", options_in_names),
        row("P10::home_with_special_name", home_with_special_name),
    ]
}

/// Every directory from codebox's own down to a mount source belongs to the caller alone and is not a link.
fn mount_sources(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(["--lang", "python", "-c", WAITING_PROGRAM]);
    let (result, found) = while_running(test_env, job, |id| {
        let container = test_env.engine.inspect(id)?;
        let mount_sources =
            container["Mounts"].as_array().context("no mounts")?.iter().filter_map(|one| one["Source"].as_str());
        let home = test_env.home().canonicalize()?;
        let own: Vec<PathBuf> = mount_sources.map(PathBuf::from).filter(|path| path.starts_with(&home)).collect();
        ensure!(!own.is_empty(), "codebox has no mount of its own");
        for source in &own {
            let above = source.ancestors().skip(1).take_while(|path| *path != home);
            above.into_iter().try_for_each(|path| check_private(path, &home))?;
        }
        Ok(own.len())
    })?;
    test_env.check_run(&result)?;
    ensure!(found >= 3, "codebox has only {found} mounts of its own");
    Ok(())
}

fn check_private(path: &Path, home: &Path) -> Result<()> {
    let (meta, caller) = (fs::symlink_metadata(path)?, fs::metadata(home)?.uid());
    let is_private = meta.is_dir() && meta.uid() == caller && meta.mode() & 0o022 == 0;
    ensure!(is_private, "{} belongs to {} with the mode {:o}", path.display(), meta.uid(), meta.mode());
    Ok(())
}

/// A grant refers to the directory, not to its name: a link that replaces the name does not redirect the job.
fn swapped_while_running(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let (granted_dir, moved) = (folder.path().join("given"), folder.path().join("moved"));
    fs::create_dir(&granted_dir)?;
    fs::write(granted_dir.join("mine"), "mine")?;
    let script = format!("{WAITING_PROGRAM}\nprint(sorted(os.listdir('/given')))");
    let job = test_env.run_granted().grant(&granted_dir, "/given", "ro").args(["--lang", "python", "-c", &script]);
    let (result, ()) = while_running(test_env, job, |_| {
        fs::rename(&granted_dir, &moved)?;
        Ok(symlink(test_env.canaries.grant().with_file_name("grant-evil"), &granted_dir)?)
    })?;
    let report = test_env.check_run(&result)?;
    ensure!(report.stdout() == "done\n['mine']\n", "stdout is {:?}, stderr is {}", report.stdout(), report.stderr());
    Ok(())
}

fn names_on_the_host(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    NAMES.iter().try_for_each(|name| {
        let granted_dir = folder.path().join(name);
        fs::create_dir(&granted_dir)?;
        check_works_or_refused(test_env, &granted_dir, "/data").with_context(|| format!("{name:?}"))
    })
}

fn names_in_the_guest(test_env: &TestEnvironment) -> Result<()> {
    NAMES.iter().try_for_each(|name| {
        let folder = test_env.kit.folder()?;
        check_works_or_refused(test_env, folder.path(), &format!("/{name}")).with_context(|| format!("{name:?}"))
    })
}

/// A guest path that contains mount options is mounted literally or refused.
fn options_in_names(test_env: &TestEnvironment) -> Result<()> {
    let outside = test_env.canaries.grant().with_file_name("grant-evil").display().to_string();
    OPTIONS.iter().try_for_each(|options| {
        let folder = test_env.kit.folder()?;
        let guest_path = format!("/data{}", options.replace("OUTSIDE", &outside));
        // If the option took effect, its source would be mounted at `/data` instead.
        let script = "cat /data/* /data*/* 2>/dev/null; :";
        let result =
            test_env.run().grant(folder.path(), &guest_path, "ro").args(["--", "/bin/bash", "-c", script]).run()?;
        test_env.canaries.check(&result).with_context(|| guest_path.clone())?;
        check_works_or_refused(test_env, folder.path(), &guest_path).with_context(|| guest_path.clone())
    })
}

/// The job sees the file in the granted directory and creates one there, or the request is refused.
fn check_works_or_refused(test_env: &TestEnvironment, granted_dir: &Path, guest_path: &str) -> Result<()> {
    fs::write(granted_dir.join("in"), "mine")?;
    let program = "import sys, os\nprint(open(sys.argv[1] + '/in').read(), end='')\nopen(sys.argv[1] + '/out', 'w').write('mine')";
    let job = test_env.run().grant(granted_dir, guest_path, "rw").args(["--lang", "python", "-c", program, guest_path]);
    let result: ProcessResult = job.run()?;
    let report = result.report()?;
    if matches!(report.kind(), "invalid_request" | "path_rejected") {
        ensure!(test_env.containers()?.is_empty(), "a container was created for a rejected job");
        return Ok(());
    }
    let report = test_env.check_run(&result)?;
    ensure!(
        report.kind() == "ok" && report.stdout() == "mine",
        "unexpected result: {} {}",
        report.kind(),
        report.stderr()
    );
    ensure!(fs::read(granted_dir.join("out"))? == b"mine", "output file is missing");
    Ok(())
}

/// Codebox's own directories are mounted too, so their names matter.
fn home_with_special_name(test_env: &TestEnvironment) -> Result<()> {
    ["a b", "a,src=OUTSIDE", "a\"b", "a:b"].iter().try_for_each(|name| {
        let outside = test_env.canaries.grant().with_file_name("grant-evil").display().to_string();
        // A directory name cannot contain a slash, so the path in the option's value adds further components.
        let home = test_env.home().join(name.replace("OUTSIDE", outside.trim_start_matches('/')));
        fs::create_dir_all(&home)?;
        let program = "import os\nprint(os.listdir('/tmp'))\nopen('/work/x', 'w').write('mine')";
        let result = test_env.run().home(&home).args(["--lang", "python", "-c", program]).run()?;
        // No other process sweeps this home.
        let swept = test_env.codebox().home(&home).arg("gc").run()?;
        test_env.canaries.check(&result)?;
        ensure!(swept.code == Some(0), "{name:?}: {}", swept.stderr_text());
        let report = result.report()?;
        let is_ok = report.kind() == "ok" && report.files("created") == ["/work/x"];
        let refused = matches!(report.kind(), "invalid_request" | "path_rejected");
        ensure!(is_ok || refused, "{name:?}: unexpected result: {:.600}", report.json().to_string());
        Ok(())
    })
}
