//! Hostile content that a job with a real kernel can leave in its directory.

use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::fixture::{StopFlag, run_unprivileged};

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[test]
fn p2_never_follows_links_in_output_directory() -> Result<()> {
    let fixture = Fixture::new()?;
    let outside = fixture.home.path().join("outside");
    fs::create_dir(&outside)?;
    fs::write(outside.join("canary"), "untouched")?;
    fs::create_dir_all(fixture.work().join("link/sub"))?;
    fs::write(fixture.work().join("link/new.txt"), "new")?;
    fs::write(fixture.work().join("link/sub/new.txt"), "new")?;
    fs::write(fixture.work().join("leaf"), "new")?;
    fs::write(fixture.work().join("gone"), "new")?;
    symlink(&outside, fixture.out().join("link"))?;
    symlink(outside.join("canary"), fixture.out().join("leaf"))?;
    symlink(outside.join("made"), fixture.out().join("gone"))?;
    let found = fixture.collect()?;
    assert_eq!(entries(&outside)?, ["canary"], "nothing is made behind a link");
    assert_eq!(fs::read(outside.join("canary"))?, b"untouched");
    for name in ["/work/link/new.txt", "/work/link/sub/new.txt"] {
        assert!(reason(&found, name)?.starts_with("cannot be copied"));
    }
    for leaf in ["leaf", "gone"] {
        let leaf = fixture.out().join(leaf);
        assert!(fs::symlink_metadata(&leaf)?.is_file(), "the existing link is not replaced");
        assert_eq!(fs::read(&leaf)?, b"new");
    }
    Ok(())
}

#[test]
fn copies_nothing_into_git_directories() -> Result<()> {
    let fixture = Fixture::new()?;
    for dir in [".git/hooks", "sub/.GIT/hooks", "fine"] {
        fs::create_dir_all(fixture.work().join(dir))?;
        fs::write(fixture.work().join(dir).join("pre-commit"), "new")?;
    }
    fs::create_dir(fixture.work().join("module"))?;
    // The form of `.git` in submodules and work trees.
    fs::write(fixture.work().join("module/.git"), "gitdir: ../fine")?;
    fs::create_dir(fixture.out().join(".git"))?;
    let found = fixture.collect()?;
    for name in ["/work/.git/hooks/pre-commit", "/work/sub/.GIT/hooks/pre-commit", "/work/module/.git"] {
        assert!(reason(&found, name)?.contains(".git directory"), "{name}");
    }
    assert_eq!(entries(&fixture.out())?, [".git", "fine"]);
    assert_eq!(entries(&fixture.out().join(".git"))?, Vec::<String>::new());
    Ok(())
}

#[test]
fn never_completes_a_git_repository() -> Result<()> {
    let fixture = Fixture::new()?;
    // The repository in `deep/bare` would be completed by parts that an earlier job copied out.
    for dir in ["objects", "refs", "deep/bare/refs"] {
        fs::create_dir_all(fixture.work().join(dir))?;
        fs::write(fixture.work().join(dir).join("file"), "new")?;
    }
    fs::write(fixture.work().join("HEAD"), "ref: refs/heads/main")?;
    fs::write(fixture.work().join("config"), "[core]")?;
    fs::create_dir_all(fixture.out().join("deep/bare/objects"))?;
    fs::write(fixture.out().join("deep/bare/HEAD"), "ref: refs/heads/main")?;
    let found = fixture.collect()?;
    assert!(reason(&found, "/work/deep/bare/refs/file")?.contains("git repository"));
    assert_eq!(entries(&fixture.out().join("deep/bare"))?, ["HEAD", "objects"]);
    let parts = entries(&fixture.out())?;
    assert!(parts.contains(&"config".to_owned()), "{parts:?}");
    assert_eq!(
        parts.iter().filter(|part| ["HEAD", "objects", "refs"].contains(&part.as_str())).count(),
        2,
        "{parts:?}"
    );
    Ok(())
}

#[test]
fn p2_rejects_output_directory_replaced_by_link() -> Result<()> {
    let fixture = Fixture::new()?;
    let outside = fixture.home.path().join("outside");
    fs::create_dir_all(outside.join("out"))?;
    fs::write(fixture.work().join("new.txt"), "new")?;
    // The directory itself, and one above it.
    for (place, target) in [("out", outside.join("out")), ("above", outside.clone())] {
        let out_path = if place == "out" { fixture.out() } else { fixture.home.path().join("above/out") };
        if place == "out" {
            fs::remove_dir(&out_path)?;
        }
        symlink(target, fixture.home.path().join(place))?;
        let at = GuestPath::work();
        let work_dir = JobWorkDir {
            dir: &fixture.work,
            at: &at,
            owner: Owner::Job,
            since: fixture.since,
            before: &fixture.before,
            guard: OutGuard::None,
        };
        let out = HostPath::native(&out_path)?;
        let found = collect(&work_dir, Some(&out), Budget::new(None, CancelToken::new()));
        assert!(reason(&found, out.as_str())?.starts_with("cannot be opened"));
        assert!(found.created.iter().all(|file| file.host.is_none()));
    }
    assert_eq!(entries(&outside.join("out"))?, [""; 0]);
    Ok(())
}

#[test]
fn p3_never_reads_link_targets() -> Result<()> {
    let mut fixture = Fixture::new()?;
    fixture.put("kept", b"input")?;
    let secret = fixture.home.path().join("secret");
    fs::write(&secret, "canary of another job")?;
    let work = fixture.work();
    symlink(&secret, work.join("absolute"))?;
    symlink("../secret", work.join("relative"))?;
    symlink("relative", work.join("chain"))?;
    symlink(fixture.home.path(), work.join("dir"))?;
    symlink("/proc/self/environ", work.join("environ"))?;
    symlink("loop", work.join("loop"))?;
    fs::remove_file(work.join("kept"))?;
    symlink(&secret, work.join("kept"))?;
    fs::hard_link(&secret, work.join("hard"))?;
    let found = fixture.collect()?;
    for file in found.created.iter().chain(&found.modified) {
        assert_eq!((file.kind, &file.sha256, &file.host), (codebox_core::FileKind::Symlink, &None, &None));
        assert_eq!(reason(&found, file.guest.as_str())?, "links are not copied");
    }
    assert_eq!(names(&found.modified), ["/work/kept"]);
    assert_eq!(found.created.len(), 6);
    assert_eq!(reason(&found, "/work/hard")?, "it has another hard link outside this directory");
    assert_eq!(entries(&fixture.out())?, Vec::<String>::new());
    Ok(())
}

#[test]
fn copies_hard_linked_outputs_under_each_name() -> Result<()> {
    let fixture = Fixture::new()?;
    fs::create_dir(fixture.work().join("sub"))?;
    fs::write(fixture.work().join("one"), "content")?;
    fs::hard_link(fixture.work().join("one"), fixture.work().join("sub/two"))?;
    let found = fixture.collect()?;
    assert_eq!(names(&found.created), ["/work/one", "/work/sub/two"]);
    assert_eq!(skipped(&found), []);
    assert_eq!(fs::read(fixture.out().join("sub/two"))?, b"content");
    Ok(())
}

#[test]
fn p5_drops_modes_and_owners() -> Result<()> {
    let fixture = Fixture::new()?;
    for (name, bits) in [("setuid", 0o4755), ("setgid", 0o2755), ("both", 0o6777), ("plain", 0o644), ("closed", 0o600)]
    {
        fs::write(fixture.work().join(name), name)?;
        set_mode(&fixture.work().join(name), bits)?;
    }
    let found = fixture.collect()?;
    for (name, bits, runs) in [
        ("setuid", Some("its setuid bit;"), true),
        ("setgid", Some("its setgid bit;"), true),
        ("both", Some("its setuid and setgid bits;"), true),
        ("plain", None, false),
        ("closed", None, false),
    ] {
        let out = fixture.out().join(name);
        assert_eq!(fs::read(&out)?, name.as_bytes());
        let got = mode(&out)?;
        assert_eq!(got & 0o7000, 0, "{name}: {got:o}");
        assert_eq!((got & 0o100 != 0, got & 0o600), (runs, 0o600), "{name}: {got:o}");
        match bits {
            Some(bits) => assert!(reason(&found, &format!("/work/{name}"))?.starts_with(bits)),
            None => assert!(reason(&found, &format!("/work/{name}")).is_err()),
        }
    }
    assert_eq!(mode(&fixture.work().join("both"))?, 0o6777, "looking changed nothing inside");
    Ok(())
}

#[test]
fn p8_reports_special_huge_and_unreadable_files_without_blocking() -> Result<()> {
    let fixture = Fixture::new()?;
    let work = fixture.work();
    mknodat(CWD, work.join("fifo"), FileType::Fifo, Mode::RWXU, 0)?;
    let _socket = std::os::unix::net::UnixListener::bind(work.join("socket"))?;
    fs::File::create(work.join("giant"))?.set_len(1 << 40)?;
    run_unprivileged(|| {
        fs::create_dir(work.join("closed"))?;
        fs::write(work.join("closed/file"), "x")?;
        fs::write(work.join("unreadable"), "x")?;
        set_mode(&work.join("closed"), 0)?;
        set_mode(&work.join("unreadable"), 0)?;
        let found = fixture.collect()?;
        assert_eq!(reason(&found, "/work/fifo")?, "it is a FIFO, which is never opened");
        assert_eq!(reason(&found, "/work/socket")?, "it is a socket, which is never opened");
        assert!(reason(&found, "/work/closed")?.contains("Permission denied"));
        assert!(reason(&found, "/work/unreadable")?.contains("Permission denied"));
        assert!(reason(&found, "/work/giant")?.starts_with("its sha256: the file is larger"));
        let giant = found.skipped.iter().rfind(|skipped| skipped.name == b"/work/giant").context("it is named")?;
        assert!(giant.reason.contains("bytes allocated"), "{}", giant.reason);
        assert_eq!(entries(&fixture.out())?, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn p8_file_changed_during_copy_is_complete_or_reported() -> Result<()> {
    let fixture = Fixture::new()?;
    let path = fixture.work().join("moving");
    fs::write(&path, "start")?;
    let stop = StopFlag::default();
    std::thread::scope(|scope| -> Result<()> {
        let guard = stop.set_on_drop();
        scope.spawn(|| {
            for round in 0u64.. {
                if stop.is_over() {
                    return;
                }
                let len = usize::try_from(round % 7).unwrap_or(0) * 100_000;
                let _ = fs::write(&path, vec![b'a' + u8::try_from(round % 26).unwrap_or(0); len]);
            }
        });
        for _ in 0..100 {
            let found = fixture.collect()?;
            let Some(file) = found.created.first() else { continue };
            let Some(host) = &file.host else {
                assert!(reason(&found, "/work/moving")?.starts_with("cannot be copied"));
                continue;
            };
            let content = fs::read(host.to_path_buf())?;
            assert_eq!(content.len() as u64, file.size, "the reported size differs from the copied size");
            use sha2::{Digest, Sha256};
            assert_eq!(Some(crate::hex::hex(&Sha256::digest(&content))), file.sha256);
        }
        drop(guard);
        Ok(())
    })?;
    assert!(entries(&fixture.out())?.iter().all(|name| name == "moving"), "no half file is left");
    Ok(())
}
