//! P2: links above a missing directory that is an output directory or a grant.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::rejected_requests::check_refused;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("P2::out_with_links_in_it", out_with_links_in_it),
        row("P2::out_becomes_a_link", out_becomes_a_link),
        row("P2::out_below_a_link", out_below_a_link),
        row("P2::grant_below_a_link", grant_below_a_link),
    ]
}

/// Program that writes output below each link and in place of each link.
const WRITES_THROUGH_LINKS: &str = "import os
for name in ('absolute', 'relative', 'chain', 'dangling'):
    os.makedirs(name + '/new')
    for path in (name + '/new.txt', name + '/new/new.txt'): open(path, 'w').write('mine')
for name in ('leaf', 'nowhere', 'plain'): open(name, 'w').write('mine')";

/// Links in the output directory do not redirect output files, with or without an existing target.
fn out_with_links_in_it(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
    fs::create_dir(&out)?;
    fs::create_dir(&outside)?;
    fs::write(outside.join("file"), "theirs")?;
    let targets = [
        ("absolute", outside.display().to_string()),
        ("relative", "../outside".to_owned()),
        ("chain", "relative".to_owned()),
        ("dangling", "../outside/made".to_owned()),
        ("leaf", outside.join("file").display().to_string()),
        ("nowhere", "../outside/made".to_owned()),
    ];
    targets.iter().try_for_each(|(name, target)| symlink(target, out.join(name)))?;
    let report = test_env.run_expecting(
        "ok",
        0,
        test_env.run().arg("--out").arg(&out).args(["--lang", "python", "-c", WRITES_THROUGH_LINKS]),
    )?;
    check_entries(&outside, &["file"])?;
    ensure!(fs::read(outside.join("file"))? == b"theirs", "a file outside was written through a link");
    for name in ["leaf", "nowhere", "plain"] {
        let host_path = out.join(name);
        ensure!(
            fs::symlink_metadata(&host_path)?.is_file() && fs::read(&host_path)? == b"mine",
            "{name} was not copied out"
        );
    }
    let skipped = report.at("/files/skipped").as_array().cloned().unwrap_or_default();
    for name in ["absolute", "relative", "chain", "dangling"] {
        for path in ["new.txt", "new/new.txt"] {
            let path = format!("/work/{name}/{path}");
            ensure!(skipped.iter().any(|one| one["name"] == path), "{path} is not reported: {skipped:?}");
        }
    }
    Ok(())
}

/// A running job that was granted the parent of the output directory replaces the directory by a link.
fn out_becomes_a_link(test_env: &TestEnvironment) -> Result<()> {
    for (out, replaced) in [("out", "out"), ("above/out", "above")] {
        let grant = test_env.canaries.grant();
        let outside = test_env.kit.folder()?;
        fs::create_dir(outside.path().join("out"))?;
        let target = if replaced == "out" { outside.path().join("out") } else { outside.path().to_owned() };
        let replace_program = "import os, sys
os.rename('/data/' + sys.argv[1], '/data/aside')
os.symlink(sys.argv[2], '/data/' + sys.argv[1])
open('new.txt', 'w').write('mine')";
        let job = test_env.run_granted().arg("--out").arg(grant.join(out)).args([
            "--lang",
            "python",
            "-c",
            replace_program,
            replaced,
        ]);
        let report = test_env.run_expecting("ok", 0, job.arg(&target))?;
        check_entries(&outside.path().join("out"), &[])?;
        ensure!(report.at("/files/skipped/0/reason").as_str().is_some_and(|why| why.contains("cannot be opened")));
        ensure!(report.at("/files/created/0/host_path").is_null(), "the report lists the file as copied out");
        fs::remove_file(grant.join(replaced))?;
        fs::remove_dir_all(grant.join("aside"))?;
    }
    Ok(())
}

/// Admission checks the target of a link, and the missing target of a link is not created.
fn out_below_a_link(test_env: &TestEnvironment) -> Result<()> {
    let grant = test_env.canaries.grant();
    plant_links(test_env)?;
    for (out, made) in [("nowhere/new", "made"), ("nowhere", "made"), ("own/new/deep", "cache/new"), ("proc/1/new", "")]
    {
        let job = test_env.run().arg("--out").arg(grant.join(out));
        check_refused(test_env, job, out)?;
        ensure!(made.is_empty() || !test_env.home().join(made).exists(), "{out}: {made} was created");
    }
    Ok(())
}

fn grant_below_a_link(test_env: &TestEnvironment) -> Result<()> {
    let grant = test_env.canaries.grant();
    plant_links(test_env)?;
    for host_path in ["nowhere/new", "nowhere", "own/new", "own/scratch", "own", "proc/1/root", "proc/1/cwd"] {
        for access in ["ro", "rw"] {
            check_refused(test_env, test_env.run().grant(&grant.join(host_path), "/data", access), host_path)?;
        }
    }
    ensure!(!test_env.home().join("made").exists(), "a file was created outside");
    Ok(())
}

/// Plants the links that one job leaves for the next.
fn plant_links(test_env: &TestEnvironment) -> Result<()> {
    let links = "import os, sys
for name, target in zip(('nowhere', 'own', 'proc'), sys.argv[1:]): os.symlink(target, '/data/' + name)";
    let job = test_env.run_granted().args(["--lang", "python", "-c", links]);
    let targets = [test_env.home().join("made"), test_env.home().join("cache"), "/proc".into()];
    test_env.run_expecting("ok", 0, job.args(targets)).map(drop)
}

fn check_entries(dir: &Path, expected: &[&str]) -> Result<()> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<std::io::Result<Vec<String>>>()?;
    ensure!(names == expected, "{} holds {names:?}", dir.display());
    Ok(())
}
