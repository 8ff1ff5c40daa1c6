//! Host files that are put into granted directories before an attack.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Canaries;

/// Runs a tool of this machine.
pub fn run_tool(name: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(name).args(args).output().with_context(|| format!("run {name}"))?;
    ensure!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Creates a read-only folder `ro` beside a writable `work`.
pub fn read_only(canaries: &Canaries) -> Result<()> {
    fs::create_dir_all(canaries.grant().join("ro/folder"))?;
    fs::create_dir(canaries.grant().join("work"))?;
    Ok(fs::write(canaries.grant().join("ro/keep.txt"), "keep\n")?)
}

/// Creates links to the canary and to magic links, at several depths.
#[cfg(unix)]
pub fn links(canaries: &Canaries) -> Result<()> {
    use std::os::unix::fs::symlink;
    let grant = canaries.grant();
    fs::create_dir_all(grant.join("deep/er"))?;
    let outside = canaries.file();
    let targets: [(&Path, &str); 5] = [
        (&outside, "to-canary"),
        (Path::new("/proc/self/root"), "to-root"),
        (Path::new("/proc/self/fd"), "to-fds"),
        (Path::new("/proc/self/environ"), "to-environment"),
        (Path::new("/"), "to-slash"),
    ];
    for (folder, up) in [("", "../"), ("deep", "../../"), ("deep/er", "../../../")] {
        let folder = grant.join(folder);
        for (target, name) in targets {
            symlink(target, folder.join(name))?;
        }
        symlink(format!("{up}canary"), folder.join("to-canary-relative"))?;
        symlink(format!("{up}grant-evil"), folder.join("to-sibling"))?;
    }
    Ok(())
}

/// Creates a pipe, a socket and, if this user is allowed to, devices.
#[cfg(unix)]
pub fn special_files(canaries: &Canaries) -> Result<()> {
    let place = |name: &str| canaries.grant().join(name).display().to_string();
    run_tool("mkfifo", &[&place("fifo")])?;
    drop(std::os::unix::net::UnixListener::bind(place("socket"))?);
    // Only root may create devices; the pipe and the socket suffice without them.
    let _ = run_tool("mknod", &[&place("null"), "c", "1", "3"]);
    let _ = run_tool("mknod", &[&place("disk"), "b", "7", "250"]);
    Ok(())
}

/// Creates two valid names and one that is not UTF-8.
#[cfg(unix)]
pub fn names(canaries: &Canaries) -> Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let bad = std::ffi::OsStr::from_bytes(b"bad\xff");
    for name in ["good.txt".as_ref(), "also good.txt".as_ref(), bad] {
        fs::write(canaries.grant().join(name), "x")?;
    }
    Ok(())
}
