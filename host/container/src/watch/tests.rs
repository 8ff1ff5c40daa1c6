use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codebox_core::{ByteSize, Limit};

use super::*;

fn watch(path: &Path, bytes: u64) -> std::io::Result<Watch> {
    let dirs = vec![codebox_files::open_dir_without_symlinks(path)?];
    let limits = Limits { disk: Limit::At(ByteSize::bytes(bytes)), files: Limit::Unlimited, ..Limits::default() };
    Watch::over(dirs, &limits).ok_or_else(|| std::io::Error::other("nothing is limited"))
}

#[tokio::test]
async fn detects_exceeded_disk_limit() -> std::io::Result<()> {
    let home = tempfile::tempdir()?;
    fs::write(home.path().join("much"), vec![1; 200_000])?;
    let mut over = watch(home.path(), 100_000)?;
    assert_eq!(over.exceeded().await, LimitKind::Disk);
    assert_eq!(over.denial(), None);
    let final_usage = over.final_usage().await;
    assert_eq!(final_usage.full, Some(LimitKind::Disk));
    assert!(final_usage.bytes.is_some_and(|bytes| bytes >= 200_000));
    let mut under = watch(home.path(), 1_000_000)?;
    assert_eq!((under.measure_once().await, under.final_usage().await.full), (None, None));
    Ok(())
}

/// Creates a large file in a directory that its owner cannot read.
fn hide(path: &Path) -> std::io::Result<()> {
    let closed = path.join("closed");
    fs::create_dir(&closed)?;
    fs::write(closed.join("hidden"), vec![1; 200_000])?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000))
}

#[test]
fn measures_directories_without_permissions() -> std::io::Result<()> {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let home = tempfile::tempdir()?;
    hide(home.path())?;
    // The thread has no capability to bypass permissions, as an ordinary owner of the directory, even if root runs the
    // tests.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .on_thread_start(|| {
            let plain = capabilities(None).and_then(|mut sets| {
                sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
                set_capabilities(None, sets)
            });
            plain.expect("the thread can drop capabilities");
        })
        .build()?;
    let mut owners = watch(home.path(), 100_000)?;
    assert_eq!(runtime.block_on(owners.exceeded()), LimitKind::Disk);
    assert_eq!(owners.denial(), None, "the directory is readable");
    Ok(())
}

#[tokio::test]
async fn ends_job_that_hides_directories() -> std::io::Result<()> {
    let home = tempfile::tempdir()?;
    let mut hidden = watch(home.path(), 100_000)?;
    for unreadable in [1, 1, 1, 1, 0, 2, 2, 2, 2] {
        let used = DiskUsage { unreadable, ..DiskUsage::default() };
        assert_eq!(hidden.judge(&used), None, "a single pass can miss a directory that is being moved");
    }
    assert_eq!(hidden.judge(&DiskUsage { unreadable: 3, ..DiskUsage::default() }), Some(LimitKind::Disk));
    assert!(hidden.denial().is_some_and(|denial| denial.detail.starts_with("3 directories")));
    Ok(())
}
