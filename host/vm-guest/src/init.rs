//! First process of the root file system: it sets the machine up, and reaps the processes whose parents have ended.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, mount_change, mount_remount};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, wait};
use rustix::system::{RebootCommand, reboot, sethostname};

use crate::boot::mount_kind;
use crate::groups::{self, user_dirs};

/// Modules for containers and networks.
const MODULES: [&str; 14] = [
    "virtio_net",
    "virtio_console",
    "virtio_balloon",
    "overlay",
    "fuse",
    "virtiofs",
    "tun",
    "bridge",
    "veth",
    "nf_tables",
    "nft_chain_nat",
    "nft_masq",
    "nft_ct",
    "nft_compat",
];

/// Order of the smallest blocks of free memory that the host gets back, 128 KiB. By default they have 2 MiB, and free memory is mostly in smaller
/// ones after a few jobs.
const REPORTED_ORDER: &str = "5";

/// Highest number of open files of a process, that of systemd. The kernel's own is 4,096.
const OPEN_FILES: u64 = 512 << 10;

/// Time between the request to end and the end by force of all processes.
const END_TIME: Duration = Duration::from_secs(3);

/// Sets the machine up, runs `manage`, and turns the machine off when that has ended.
pub(crate) fn init() -> io::Result<()> {
    for (kind, at, options) in [
        ("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("tmpfs", "/run", "mode=755"),
        ("tmpfs", "/tmp", "mode=1777"),
        ("cgroup2", "/sys/fs/cgroup", ""),
    ] {
        fs::create_dir_all(at)?;
        mount_kind(kind, at, options)?;
    }
    for (link, to) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(to, format!("/dev/{link}"))?;
    }
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    sethostname(b"codebox-vm")?;
    // The disk can be larger than its file system.
    command(&["resize2fs"], &["/dev/vda"]);
    command(&["modprobe", "-a", "-q"], &MODULES);
    for words in [
        &["ip", "link", "set", "lo", "up"][..],
        &["ip", "link", "set", "eth0", "up"],
        &["ip", "addr", "add", "10.0.2.15/24", "dev", "eth0"],
        &["ip", "route", "add", "default", "via", "10.0.2.2"],
    ] {
        command(words, &[]);
    }
    fs::write("/etc/resolv.conf", "nameserver 10.0.2.3\n")?;
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")?;
    // A kernel without it has no balloon.
    let _ = fs::write("/sys/module/page_reporting/parameters/page_reporting_order", REPORTED_ORDER);
    setrlimit(Resource::Nofile, Rlimit { maximum: Some(OPEN_FILES), ..getrlimit(Resource::Nofile) })?;
    groups::delegate()?;
    user_dirs()?;
    let manager = Command::new("/proc/self/exe").arg("manage").stdin(Stdio::null()).spawn()?;
    reap(manager.id());
    power_off();
    Ok(())
}

/// Runs a command of the system whose failure a later step notices.
fn command(words: &[&str], more: &[&str]) {
    if let Some((program, rest)) = words.split_first()
        && let Err(error) = Command::new(program).args(rest).args(more).env("PATH", crate::exec::PATH).status()
    {
        eprintln!("codebox-vm: cannot start {program}: {error}");
    }
}

/// Waits for processes until this one has ended.
fn reap(manager: u32) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if u32::try_from(pid.as_raw_nonzero().get()).ok() == Some(manager) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Ends all processes, writes everything to the disk, and turns the machine off.
pub(crate) fn power_off() {
    let all = |signal| {
        for pid in processes() {
            let _ = kill_process(pid, signal);
        }
    };
    all(Signal::TERM);
    let until = std::time::Instant::now() + END_TIME;
    while processes().next().is_some() && std::time::Instant::now() < until {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(10));
    }
    all(Signal::KILL);
    crate::mark::end();
    rustix::fs::sync();
    let _ = mount_remount("/", MountFlags::RDONLY, c"");
    let _ = reboot(RebootCommand::PowerOff);
}

/// Returns the processes that are programs, but for this one.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        // Threads of the kernel have no program.
        let has_program = pid != 1 && fs::read_link(entry.path().join("exe")).is_ok();
        Pid::from_raw(pid).filter(|_| has_program)
    })
}
