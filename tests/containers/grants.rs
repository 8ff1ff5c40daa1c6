//! P9 and P10: the job sees exactly the granted directory, regardless of its name and the guest path.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Ran;

use crate::ground::Ground;
use crate::row::{Row, row};
use crate::watched::{WAITING, during};

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
        row("P9::sources", sources),
        row("P9::swapped_while_running", swapped_while_running),
        row("P10::names_on_the_host", names_on_the_host),
        row("P10::names_in_the_guest", names_in_the_guest),
        row("P10::options_in_names", options_in_names),
        row("P10::home", home_of_an_odd_name),
    ]
}

/// Every directory from codebox's own down to a mount source belongs to the caller alone and is not a link.
fn sources(ground: &Ground) -> Result<()> {
    let job = ground.run_granted().args(["--lang", "python", "-c", WAITING]);
    let (ran, found) = during(ground, job, |id| {
        let told = ground.engine.inspect(id)?;
        let sources = told["Mounts"].as_array().context("no mounts")?.iter().filter_map(|one| one["Source"].as_str());
        let home = ground.home().canonicalize()?;
        let own: Vec<PathBuf> = sources.map(PathBuf::from).filter(|path| path.starts_with(&home)).collect();
        ensure!(!own.is_empty(), "no mount is codebox's own");
        for source in &own {
            let above = source.ancestors().skip(1).take_while(|path| *path != home);
            above.into_iter().try_for_each(|path| closed(path, &home))?;
        }
        Ok(own.len())
    })?;
    ground.judge(&ran)?;
    ensure!(found >= 3, "only {found} mounts are codebox's own");
    Ok(())
}

fn closed(path: &Path, home: &Path) -> Result<()> {
    let (meta, caller) = (fs::symlink_metadata(path)?, fs::metadata(home)?.uid());
    let fine = meta.is_dir() && meta.uid() == caller && meta.mode() & 0o022 == 0;
    ensure!(fine, "{} belongs to {} with the mode {:o}", path.display(), meta.uid(), meta.mode());
    Ok(())
}

/// A grant refers to the directory, not to its name: a link that replaces the name does not redirect the job.
fn swapped_while_running(ground: &Ground) -> Result<()> {
    let folder = ground.kit.folder()?;
    let (given, moved) = (folder.path().join("given"), folder.path().join("moved"));
    fs::create_dir(&given)?;
    fs::write(given.join("mine"), "mine")?;
    let look = format!("{WAITING}\nprint(sorted(os.listdir('/given')))");
    let job = ground.run_granted().grant(&given, "/given", "ro").args(["--lang", "python", "-c", &look]);
    let (ran, ()) = during(ground, job, |_| {
        fs::rename(&given, &moved)?;
        Ok(symlink(ground.canaries.grant().with_file_name("grant-evil"), &given)?)
    })?;
    let report = ground.judge(&ran)?;
    ensure!(report.stdout() == "told\n['mine']\n", "it saw {:?} {}", report.stdout(), report.stderr());
    Ok(())
}

fn names_on_the_host(ground: &Ground) -> Result<()> {
    let folder = ground.kit.folder()?;
    NAMES.iter().try_for_each(|name| {
        let given = folder.path().join(name);
        fs::create_dir(&given)?;
        works_or_refused(ground, &given, "/data").with_context(|| format!("{name:?}"))
    })
}

fn names_in_the_guest(ground: &Ground) -> Result<()> {
    NAMES.iter().try_for_each(|name| {
        let folder = ground.kit.folder()?;
        works_or_refused(ground, folder.path(), &format!("/{name}")).with_context(|| format!("{name:?}"))
    })
}

/// A guest path that contains mount options is mounted literally or refused.
fn options_in_names(ground: &Ground) -> Result<()> {
    let outside = ground.canaries.grant().with_file_name("grant-evil").display().to_string();
    OPTIONS.iter().try_for_each(|options| {
        let folder = ground.kit.folder()?;
        let place = format!("/data{}", options.replace("OUTSIDE", &outside));
        // If the option took effect, its source would be mounted at `/data` instead.
        let look = "cat /data/* /data*/* 2>/dev/null; :";
        let ran = ground.run().grant(folder.path(), &place, "ro").args(["--", "/bin/bash", "-c", look]).run()?;
        ground.canaries.check(&ran).with_context(|| place.clone())?;
        works_or_refused(ground, folder.path(), &place).with_context(|| place.clone())
    })
}

/// The job sees the file in the granted directory and creates one there, or the request is refused.
fn works_or_refused(ground: &Ground, given: &Path, place: &str) -> Result<()> {
    fs::write(given.join("in"), "mine")?;
    let program = "import sys, os\nprint(open(sys.argv[1] + '/in').read(), end='')\nopen(sys.argv[1] + '/out', 'w').write('mine')";
    let job = ground.run().grant(given, place, "rw").args(["--lang", "python", "-c", program, place]);
    let ran: Ran = job.run()?;
    let report = ran.report()?;
    if matches!(report.kind(), "invalid_request" | "path_rejected") {
        ensure!(ground.containers()?.is_empty(), "it was refused, and a container made");
        return Ok(());
    }
    let report = ground.judge(&ran)?;
    ensure!(report.kind() == "ok" && report.stdout() == "mine", "it ended as {} {}", report.kind(), report.stderr());
    ensure!(fs::read(given.join("out"))? == b"mine", "what it left is not there");
    Ok(())
}

/// Codebox's own directories are mounted too, so their names matter.
fn home_of_an_odd_name(ground: &Ground) -> Result<()> {
    ["a b", "a,src=OUTSIDE", "a\"b", "a:b"].iter().try_for_each(|name| {
        let outside = ground.canaries.grant().with_file_name("grant-evil").display().to_string();
        // A directory name cannot contain a slash, so the path in the option's value adds further components.
        let home = ground.home().join(name.replace("OUTSIDE", outside.trim_start_matches('/')));
        fs::create_dir_all(&home)?;
        let program = "import os\nprint(os.listdir('/tmp'))\nopen('/work/x', 'w').write('mine')";
        let ran = ground.run().home(&home).args(["--lang", "python", "-c", program]).run()?;
        // No other process sweeps this home.
        let swept = ground.codebox().home(&home).arg("gc").run()?;
        ground.canaries.check(&ran)?;
        ensure!(swept.code == Some(0), "{name:?}: {}", swept.stderr_text());
        let report = ran.report()?;
        let fine = report.kind() == "ok" && report.files("created") == ["/work/x"];
        let refused = matches!(report.kind(), "invalid_request" | "path_rejected");
        ensure!(fine || refused, "{name:?}: it ended as {:.600}", report.json().to_string());
        Ok(())
    })
}
