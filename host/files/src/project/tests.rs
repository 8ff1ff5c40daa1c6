use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use anyhow::Result;
use cap_std::ambient_authority;

use super::*;

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent"))?;
    Ok(fs::write(path, text)?)
}

fn open(path: &Path) -> Result<Dir> {
    Ok(Dir::open_ambient_dir(path, ambient_authority())?)
}

fn paths(found: &ProjectFiles) -> Vec<&str> {
    found.files.iter().map(|file| file.path.as_str()).collect()
}

fn left_out(found: &ProjectFiles) -> Vec<(&str, &LeftOutReason)> {
    found.left_out.iter().map(|entry| (entry.path.as_str(), &entry.reason)).collect()
}

#[test]
fn secrets_links_and_ignored_files_are_left_out() -> Result<()> {
    let home = tempfile::tempdir()?;
    let root = home.path();
    for path in
        ["main.py", "pkg/a.py", "pkg/a.log", ".env", "build/x", ".git/config", "pkg/kept.log", "node_modules/x/i.js"]
    {
        write(root, path, "text")?;
    }
    write(root, ".gitignore", "*.log\n/build/\n")?;
    write(root, "pkg/.gitignore", "!kept.log\n")?;
    write(root, "run.sh", "#!/bin/sh\n")?;
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755))?;
    symlink("/etc/passwd", root.join("link"))?;
    symlink("/etc", root.join("pkg/dir"))?;
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RWXU)?;
    let found = read_project(&open(root)?, &[])?;
    assert_eq!(paths(&found), [".gitignore", "main.py", "pkg/.gitignore", "pkg/a.py", "pkg/kept.log", "run.sh"]);
    let executable: Vec<bool> = found.files.iter().map(|file| file.executable).collect();
    assert_eq!(executable, [false, false, false, false, false, true]);
    use LeftOutReason::{Generated, Ignored, Link, Secret, Special, VersionControl};
    let expected = [
        (".env", &Secret),
        (".git/", &VersionControl),
        ("build/", &Ignored),
        ("fifo", &Special),
        ("link", &Link),
        ("node_modules/", &Generated),
        ("pkg/a.log", &Ignored),
        ("pkg/dir", &Link),
    ];
    assert_eq!(left_out(&found), expected);
    Ok(())
}

#[test]
fn patterns_of_directories_above_apply() -> Result<()> {
    let home = tempfile::tempdir()?;
    let root = home.path();
    write(root, ".gitignore", "*.csv\n/app/local.py\n/local.txt\n")?;
    for path in ["app/a.csv", "app/local.py", "app/local.txt", "app/sub/b.csv", "app/main.py"] {
        write(root, path, "")?;
    }
    let found = read_project(&open(&root.join("app"))?, &[(open(root)?, "app".into())])?;
    assert_eq!(paths(&found), ["local.txt", "main.py"]);
    Ok(())
}

#[test]
fn patterns_that_cannot_be_applied_are_errors() -> Result<()> {
    let home = tempfile::tempdir()?;
    let root = home.path();
    write(root, "sub/secret.txt", "")?;
    let braces = format!("{}a{}", "{a,".repeat(2000), "}".repeat(2000));
    let many: String = (0..3000).map(|n| format!("*{n}*\n")).collect();
    for text in [format!("secret.txt\n{braces}\n"), many, format!("#{}\nsecret.txt\n", "x".repeat(1 << 20))] {
        write(root, "sub/.gitignore", &text)?;
        let found = read_project(&open(root)?, &[]);
        let is_kept = found.as_ref().is_ok_and(|found| !paths(found).contains(&"sub/secret.txt"));
        assert!(is_kept || matches!(found, Err(ProjectError::Ignore { .. })), "{found:?}");
    }
    Ok(())
}

#[test]
fn patterns_after_a_byte_order_mark_count_whole() -> Result<()> {
    let home = tempfile::tempdir()?;
    write(home.path(), "first.txt", "text")?;
    write(home.path(), "last.txt", "text")?;
    write(home.path(), ".gitignore", "\u{feff}first.txt\nlast.txt\n")?;
    let found = read_project(&open(home.path())?, &[])?;
    assert!(found.files.iter().all(|file| file.path == ".gitignore"), "{found:?}");
    // One that is too large is not cut.
    let max = usize::try_from(MAX_IGNORE_BYTES)?;
    write(home.path(), ".gitignore", &format!("\u{feff}{}\nlast.txt\n", "#".repeat(max - 4)))?;
    read_project(&open(home.path())?, &[]).expect_err("it is too large");
    Ok(())
}

#[test]
fn too_large_projects_are_refused() -> Result<()> {
    let home = tempfile::tempdir()?;
    write(home.path(), "a.txt", "text")?;
    fs::File::create(home.path().join("data.bin"))?.set_len(MAX_PROJECT_BYTES)?;
    let error = read_project(&open(home.path())?, &[]).expect_err("it is too large");
    assert_eq!(error.to_string(), "its files have more than 64 MiB; the largest is data.bin");
    fs::remove_file(home.path().join("data.bin"))?;
    for count in 0..MAX_PROJECT_FILES {
        write(home.path(), &format!("files/{count}"), "")?;
    }
    let error = read_project(&open(home.path())?, &[]).expect_err("it has too many files");
    assert_eq!(error.to_string(), "it has more than 5000 files");
    Ok(())
}
