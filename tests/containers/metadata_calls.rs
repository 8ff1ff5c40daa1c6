//! P5: codebox changes owner, mode and times of files that a job can swap only through handles.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::running_jobs::RunningJob;
use crate::test_env::{TestEnvironment, program};

pub fn rows() -> Vec<Row> {
    vec![
        row("P5::metadata_calls_use_handles", metadata_calls_use_handles).with_tool("strace"),
        row("P5::swapped_directory", swapped_directory),
    ]
}

/// System calls that change a file's metadata; a question mark marks calls that a kernel may lack.
const CALLS: &str = "chmod,fchmod,fchmodat,?fchmodat2,chown,lchown,fchown,fchownat,utime,utimes,utimensat,futimesat,\
                     setxattr,lsetxattr,fsetxattr,?setxattrat,removexattr,lremovexattr,fremovexattr";

/// Program whose remains require such calls: copied-in files, closed directories, links and set times.
const LEAVES_METADATA: &str = "import os
os.makedirs('a/b'); open('a/b/run', 'w').write('x'); os.chmod('a/b/run', 0o755); os.utime('a/b/run', (1, 1))
os.symlink('/data', 'link')
for name in ('closed', 'closed/closed'): os.makedirs(name)
for name in ('closed/closed', 'closed'): os.chmod(name, 0)
os.chmod('/tmp', 0)";

/// No such call of codebox names a file by a path: each uses a handle, or a single name relative to a handle without
/// following links.
fn metadata_calls_use_handles(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let (trace, program) = (folder.path().join("trace"), folder.path().join("job.py"));
    fs::write(&program, LEAVES_METADATA)?;
    let job = test_env.run_granted().args(["--timeout", "100s", "--out"]).arg(folder.path().join("out")).arg(&program);
    let plain = job.command();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-yy", "-s", "4096", "-e", &format!("trace={CALLS}"), "-o"]).arg(&trace);
    traced.arg(plain.get_program()).args(plain.get_args()).env_clear();
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = traced.output().context("run strace")?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("stderr is {}", String::from_utf8_lossy(&output.stderr)))?;
    ensure!(report["kind"] == "ok", "unexpected result: {report}");
    test_env.record_container(report["provenance"]["container_id"].as_str().context("no container is named")?);
    let text = fs::read_to_string(&trace)?;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains('(') && !line.contains("resumed>")).collect();
    ensure!(!lines.is_empty(), "nothing was traced: {text:?}");
    lines.into_iter().try_for_each(|line| check_uses_handle(line).with_context(|| line.to_owned()))
}

/// Checks that a traced call uses a handle.
fn check_uses_handle(line: &str) -> Result<()> {
    let (before, arguments) = line.split_once('(').context("line is not a system call")?;
    let call = before.split_whitespace().last().unwrap_or_default();
    if ["fchmod", "fchown", "fsetxattr", "fremovexattr"].contains(&call) {
        return Ok(());
    }
    if !["fchmodat", "fchmodat2", "fchownat", "utimensat", "setxattrat"].contains(&call) {
        bail!("call uses a path instead of a handle");
    }
    let (dir, rest) = arguments.split_once(", ").context("call has one argument")?;
    let Some(name) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
        ensure!(rest.starts_with("NULL"), "its path is not printed");
        return Ok(());
    };
    ensure!(!dir.starts_with("AT_FDCWD"), "call uses a path relative to the working directory");
    let is_of_handles = dir.contains("</proc/") && dir.ends_with("/fd>") && name.bytes().all(|b| b.is_ascii_digit());
    let is_one_name = !name.contains('/') && !matches!(name, "." | "..");
    let follows_none = line.contains("AT_SYMLINK_NOFOLLOW") || line.contains("AT_EMPTY_PATH") && name.is_empty();
    ensure!(is_of_handles || is_one_name && follows_none, "call may follow a link");
    Ok(())
}

/// A directory that a job swaps for a link while its remains are measured and removed is not touched in any way: its
/// change time, which cannot be set, stays the same.
fn swapped_directory(test_env: &TestEnvironment) -> Result<()> {
    let outside = test_env.kit.folder()?;
    let target_dir = outside.path().join("bait");
    fs::create_dir(&target_dir)?;
    fs::write(outside.path().join("file"), "outside")?;
    // The mode denies access, so that any process that needs access must change the mode.
    fs::set_permissions(&target_dir, fs::Permissions::from_mode(0o100))?;
    let snapshot = || -> Result<Vec<(i64, i64, u32, u32)>> {
        let places = [outside.path().to_owned(), target_dir.clone(), outside.path().join("file")];
        let metadata = places.iter().map(|path| {
            let meta = fs::symlink_metadata(path)?;
            Ok((meta.ctime(), meta.ctime_nsec(), meta.mode(), meta.uid()))
        });
        metadata.collect()
    };
    let before = snapshot()?;
    for _ in 0..3 {
        let _ = fs::remove_file(test_env.canaries.grant().join("ready"));
        let job = test_env.run_granted().args(["--timeout", "100s"]).arg(program("p5_closing.py")).arg(&target_dir);
        RunningJob::new(test_env, &job)?.kill()?;
        wait_until_empty(|| {
            let result = test_env.codebox().arg("gc").run()?;
            let remaining = test_env.containers()?;
            ensure!(
                result.code == Some(0) || !remaining.is_empty(),
                "gc: {} {}",
                result.stdout_text(),
                result.stderr_text()
            );
            Ok(remaining)
        })?;
    }
    let after = snapshot()?;
    ensure!(after == before, "files outside changed: {before:?} became {after:?}");
    Ok(())
}
