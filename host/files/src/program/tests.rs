use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;
use crate::embedded::tests::embed;

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[test]
fn rewrites_changed_program() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let (folder, content) = (home.path().join("programs"), b"#!/bin/true\n");
    let embedded = embed(content);
    let embedded = EmbeddedFile::new(&embedded);
    let path = ProgramFile::install(&folder, "tool", embedded)?.path().to_owned();
    let is_intact = || -> io::Result<bool> {
        let meta = fs::symlink_metadata(&path)?;
        Ok(meta.is_file() && meta.mode() & 0o7777 == 0o555 && fs::read(&path)? == content)
    };
    assert!(is_intact()?);
    let first = fs::metadata(&path)?.ino();
    ProgramFile::install(&folder, "tool", embedded)?;
    assert_eq!(fs::metadata(&path)?.ino(), first, "an intact file is not rewritten");
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, content)?;
    let changes: [fn(&Path, &Path) -> io::Result<()>; 6] = [
        // The name and the length stay the same.
        |path, _| fs::remove_file(path).and_then(|()| fs::write(path, b"#!/bin/evil\n")),
        |path, _| fs::remove_file(path).and_then(|()| fs::write(path, b"#!/bin/true\nmore")),
        |path, elsewhere| fs::remove_file(path).and_then(|()| symlink(elsewhere, path)),
        |path, _| set_mode(path, 0o777),
        // The inode and the modification time stay the same; only the change time differs.
        |path, _| {
            let before = fs::metadata(path)?.modified()?;
            set_mode(path, 0o700)?;
            fs::write(path, b"#!/bin/evil\n")?;
            File::options().write(true).open(path)?.set_modified(before)?;
            set_mode(path, 0o555)
        },
        |path, _| fs::remove_file(path).and_then(|()| fs::write(path.with_extension("seal"), "0 0 0 0 0 0 0")),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        change(&path, &elsewhere)?;
        ProgramFile::install(&folder, "tool", embedded)?;
        assert!(is_intact()?, "change {at}");
    }
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn command_runs_verified_file_after_replacement() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let content = fs::read("/bin/true")?;
    let program = ProgramFile::install(home.path(), "tool", EmbeddedFile::new(&embed(&content)))?;
    fs::remove_file(program.path())?;
    fs::copy("/bin/false", program.path())?;
    assert!(program.command().status()?.success());
    Ok(())
}

#[test]
fn installed_programs_are_used_unless_others_can_change_them() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let (path, content) = (home.path().join("tool"), embed(b"#!/bin/true\n"));
    let content = EmbeddedFile::new(&content);
    let is_used = || ProgramFile::installed(&path, content).is_some();
    assert!(!is_used());
    ProgramFile::pack(&path, content)?;
    assert!(is_used() && fs::metadata(&path)?.mode() & 0o7777 == 0o555);
    for (mode, expected) in [(0o757, false), (0o775, false), (0o444, false), (0o755, true)] {
        set_mode(&path, mode)?;
        assert_eq!(is_used(), expected, "{mode:o}");
    }
    set_mode(home.path(), 0o777)?;
    assert!(!is_used(), "others can replace it");
    set_mode(home.path(), 0o700)?;
    fs::write(&path, "#!/bin/true\nmore")?;
    assert!(!is_used());
    fs::rename(&path, path.with_extension("other"))?;
    ProgramFile::pack(&path.with_extension("target"), content)?;
    symlink(path.with_extension("target"), &path)?;
    assert!(!is_used());
    Ok(())
}

#[test]
fn compares_content_once() -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let seal = home.path().join("tool.seal");
    let install = |content: &[u8]| ProgramFile::install(home.path(), "tool", EmbeddedFile::new(&embed(content)));
    install(b"#!/bin/true\n")?;
    let sealed = fs::metadata(&seal)?.ino();
    // The seal alone decides: different content of the same length is not noticed, and callers never pass it.
    let unread = install(b"#!/bin/evil\n")?;
    assert_eq!(fs::read(unread.path())?, b"#!/bin/true\n");
    assert_eq!(fs::metadata(&seal)?.ino(), sealed);
    fs::write(&seal, "nonsense")?;
    install(b"#!/bin/true\n")?;
    assert_ne!(fs::metadata(&seal)?.ino(), sealed, "compared, and sealed anew");
    Ok(())
}
