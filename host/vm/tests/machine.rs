//! A real virtual machine in QEMU, from the image that `cargo xtask vm-image` makes.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_core::{Access, Silent};
use codebox_vm::{
    Channel, CommandResult, Exec, IMAGE_VERSION, Layer, Provider as _, Qemu, ShareSpec, VmImage, VmSpec, VmState,
    forward,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Time for a machine to answer, which is translated and shares the processors with other tests.
const START_TIMEOUT: Duration = Duration::from_secs(180);

fn image() -> VmImage {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vm-image");
    let dir = std::env::var_os("CODEBOX_VM_IMAGE").map_or_else(default, PathBuf::from);
    VmImage::open_all(&dir).expect("run cargo xtask vm-image")
}

/// A machine, which is removed on drop.
struct Machine {
    qemu: Qemu,
    image: VmImage,
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let machine = Self { qemu: Qemu::new(dir.path().join("vm")), image: image(), dir };
        assert_eq!(machine.qemu.state(), Ok(VmState::Missing));
        machine.qemu.create(&machine.image, &spec(), &Silent).expect("a disk");
        assert_eq!(machine.qemu.state(), Ok(VmState::Stopped));
        machine
    }

    fn start(&self) {
        self.qemu.start(&self.image, &spec()).expect("it starts");
        assert_eq!(self.qemu.state(), Ok(VmState::Running));
    }

    async fn channel(&self) -> Channel {
        let stream = self.qemu.connect().await.expect("a connection");
        let opened = Channel::open(stream, START_TIMEOUT).await;
        opened.unwrap_or_else(|error| panic!("{error}: {}", self.qemu.log()))
    }

    async fn wait_until_stopped(&self) {
        while self.qemu.state() == Ok(VmState::Running) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.delete();
    }
}

fn spec() -> VmSpec {
    VmSpec { memory: 1024, disk: 8, ..VmSpec::for_machine(2, 4096) }
}

async fn run(channel: &Channel, words: &[&str], input: &[u8]) -> CommandResult {
    let argv = words.iter().map(|word| (*word).to_owned()).collect();
    channel.run(Exec { argv, is_root: false }, input).await.expect("it runs")
}

async fn shell(channel: &Channel, script: &str) -> String {
    let result = run(channel, &["sh", "-c", script], b"").await;
    assert_eq!(result.status, 0, "{script}: {}", String::from_utf8_lossy(&result.stderr));
    String::from_utf8(result.stdout).expect("text")
}

/// Asks Podman for a path over a socket, and returns the answer; an empty one if Podman does not answer yet.
async fn ask(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs QEMU and the image of cargo xtask vm-image"]
async fn a_machine_runs_commands_and_podman() {
    let machine = Machine::new();
    machine.start();
    let channel = machine.channel().await;
    let result = run(&channel, &["sh", "-c", "cat; echo no >&2; exit 7"], b"in\0put").await;
    assert_eq!((result.status, result.stdout.as_slice(), result.stderr.as_slice()), (7, &b"in\0put"[..], &b"no\n"[..]));
    assert_eq!(run(&channel, &["sh", "-c", "kill -9 $$"], b"").await.status, 128 + 9);
    let error = channel.run(Exec { argv: vec!["no-such-program".to_owned()], is_root: false }, b"").await;
    assert_eq!(error.map_err(|error| error.layer), Err(Layer::Vm));
    let large = run(&channel, &["sh", "-c", "head -c 3000000 /dev/zero"], b"").await;
    assert_eq!(large.stdout.len(), 3_000_000);
    assert_eq!(shell(&channel, "id -u").await.trim(), "1000");
    let controllers = shell(&channel, "cat /sys/fs/cgroup/codebox/jobs/cgroup.controllers").await;
    for name in ["cpu", "memory", "pids"] {
        assert!(controllers.contains(name), "{controllers}");
    }
    // The root file system fills the disk.
    let facts = channel.facts().await.expect("facts");
    assert!(facts.disk[0] > 7 << 30 && facts.memory[0] > 900 << 20, "{facts:?}");
    // The clock is that of this machine after a jump.
    let jump = Exec { argv: vec!["date".to_owned(), "-s".to_owned(), "2001-01-01".to_owned()], is_root: true };
    assert_eq!(channel.run(jump, b"").await.expect("it runs").status, 0);
    channel.set_clock().await.expect("it is set");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_millis();
    let there = u128::from(channel.facts().await.expect("facts").time_ms);
    assert!(now.abs_diff(there) < 30_000, "{now} {there}");
    // Many streams at once.
    let echo = |number: usize| {
        let channel = channel.clone();
        async move { run(&channel, &["echo", &number.to_string()], b"").await.stdout == format!("{number}\n").as_bytes() }
    };
    let all: Vec<_> = (0..50).map(|number| tokio::spawn(echo(number))).collect();
    for one in all {
        assert!(one.await.expect("it ends"));
    }
    // Podman behind a socket that only this user can reach.
    let socket = machine.dir.path().join("socket/podman.sock");
    let listener = forward::listen(&socket).expect("a socket");
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).expect("facts").permissions());
    assert_eq!((mode(&socket) & 0o777, mode(socket.parent().expect("a parent")) & 0o777), (0o600, 0o700));
    let forwarding = tokio::spawn({
        let channel = channel.clone();
        async move { forward::forward(&listener, &channel).await }
    });
    while !ask(&socket, "/v1.41/_ping").await.contains("\r\n\r\nOK") {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let info = ask(&socket, "/v1.41/info").await;
    assert!(info.contains("\"CgroupVersion\":\"2\"") && info.contains("\"Rootless\":true"), "{info}");
    channel.power_off().await.expect("it is turned off");
    forwarding.await.expect("it ends with the machine");
    machine.wait_until_stopped().await;
    assert_eq!(machine.qemu.state(), Ok(VmState::Stopped));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs QEMU and the image of cargo xtask vm-image"]
async fn a_machine_survives_lost_connections_and_power() {
    let machine = Machine::new();
    // Two processes that start it at once start one.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| machine.start());
        }
    });
    let channel = machine.channel().await;
    shell(&channel, "echo kept > ~/file && sync").await;
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { channel.run(Exec { argv: vec!["sleep".to_owned(), "600".to_owned()], is_root: false }, b"").await }
    });
    // A host that is killed leaves the machine to the next one.
    waiting.abort();
    drop(channel);
    let channel = machine.channel().await;
    assert_eq!(shell(&channel, "cat ~/file").await, "kept\n");
    // The power fails.
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { channel.run(Exec { argv: vec!["sleep".to_owned(), "600".to_owned()], is_root: false }, b"").await }
    });
    machine.qemu.kill().expect("it ends");
    let lost = waiting.await.expect("it ends").expect_err("the machine is gone");
    assert_eq!(lost.layer, Layer::Network, "{lost}");
    assert_eq!(machine.qemu.state(), Ok(VmState::Stopped));
    machine.start();
    assert_eq!(shell(&machine.channel().await, "cat ~/file").await, "kept\n");
    machine.qemu.kill().expect("it ends");
    // A disk that cannot be mounted is not taken for a slow machine.
    let disk = std::fs::File::options().write(true).open(machine.dir.path().join("vm/disk.img")).expect("a disk");
    std::os::unix::fs::FileExt::write_all_at(&disk, &[0; 8192], 0).expect("it is ours");
    machine.start();
    machine.wait_until_stopped().await;
    let state = machine.qemu.state().expect("a state");
    assert!(matches!(&state, VmState::Damaged(reason) if reason.contains("disk")), "{state:?} {}", machine.qemu.log());
}

/// Runs a script as root, and returns its exit status.
async fn as_root(channel: &Channel, script: &str) -> i32 {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    channel.run(Exec { argv, is_root: true }, b"").await.expect("it runs").status
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs QEMU and the image of cargo xtask vm-image"]
async fn directories_are_shared() {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    let machine = Machine::new();
    machine.start();
    let channel = machine.channel().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (work, constant) = (dir.path().join("work"), dir.path().join("constant"));
    fs::create_dir_all(work.join("from/deep")).expect("a directory");
    fs::create_dir(&constant).expect("a directory");
    let content =
        |number: u32| -> Vec<u8> { (0..20_000_u32).map(|at| (at.wrapping_mul(number + 7) >> 3) as u8).collect() };
    for number in 0..1000 {
        fs::write(work.join(format!("from/deep/{number}")), content(number)).expect("it is ours");
    }
    fs::write(constant.join("file"), "constant").expect("it is ours");
    fs::write(dir.path().join("secret"), "secret").expect("it is ours");
    symlink(dir.path().join("secret"), work.join("link")).expect("it is ours");
    symlink("/etc/codebox-image", work.join("there")).expect("it is ours");
    let spec = |path: &Path, access, is_constant| ShareSpec { path: path.to_owned(), access, is_constant };
    let share = channel.share(&spec(&work, Access::ReadWrite, false)).await.expect("it is shared");
    let at = share.path().to_string();
    // There and back, with a name that is not text.
    shell(&channel, &format!("cp -r {at}/from {at}/to && printf x > \"{at}/$(printf 'a\\377b')\"")).await;
    for number in 0..1000 {
        assert_eq!(fs::read(work.join(format!("to/deep/{number}"))).expect("a copy"), content(number), "{number}");
    }
    assert_eq!(fs::read(work.join(std::ffi::OsStr::from_bytes(b"a\xffb"))).expect("a file"), b"x");
    // The user of the machine owns the files, and a link leads nowhere on this machine.
    assert_eq!(shell(&channel, &format!("stat -c %u:%g {at} {at}/to/deep/7")).await, "1000:1000\n1000:1000\n");
    assert_eq!(run(&channel, &["cat", &format!("{at}/link")], b"").await.status, 1);
    assert_eq!(shell(&channel, &format!("cat {at}/there")).await.trim(), IMAGE_VERSION.to_string());
    // Each side sees the changes of the other.
    fs::write(work.join("news"), "one").expect("it is ours");
    assert_eq!(shell(&channel, &format!("cat {at}/news")).await, "one");
    fs::write(work.join("news"), "second").expect("it is ours");
    assert_eq!(shell(&channel, &format!("cat {at}/news; rm {at}/news; echo more >> {at}/from/deep/0")).await, "second");
    assert!(!work.join("news").exists());
    assert_eq!(fs::metadata(work.join("from/deep/0")).expect("facts").len(), 20_005);
    // Even root of the machine makes no devices, no programs with the rights of their owner, and no owners.
    for script in [
        "mknod {at}/null c 1 3",
        "mknod {at}/disk b 8 0",
        "chown 4321 {at}/to",
        "chmod 4755 {at}/to/deep/1 && test -u {at}/to/deep/1",
    ] {
        assert_ne!(as_root(&channel, &script.replace("{at}", &at)).await, 0, "{script}");
    }
    assert!(!work.join("null").exists() && !work.join("disk").exists());
    let facts = fs::metadata(work.join("to/deep/1")).expect("facts");
    assert_eq!((facts.mode() & 0o6000, facts.uid()), (0, rustix::process::geteuid().as_raw()));
    // A directory that can only be read, even if the machine mounts it again.
    let fixed = channel.share(&spec(&constant, Access::ReadOnly, true)).await.expect("it is shared");
    let there = fixed.path().to_string();
    assert_ne!(there, at);
    assert_eq!(shell(&channel, &format!("cat {there}/file")).await, "constant");
    for script in
        ["echo no > {at}/new", "echo no >> {at}/file", "rm {at}/file", "chmod 0 {at}/file", "ln {at}/file {at}/new"]
    {
        let script = script.replace("{at}", &there);
        assert_ne!(as_root(&channel, &script).await, 0, "{script}");
        assert_ne!(as_root(&channel, &format!("mount -o remount,rw {there} && {script}")).await, 0, "{script}");
    }
    assert_eq!(fs::read(constant.join("file")).expect("a file"), b"constant");
    assert_eq!(fs::read_dir(&constant).expect("a list").count(), 1);
    // It ends with its owner, also while it is used.
    let using = tokio::spawn({
        let (channel, there) = (channel.clone(), there.clone());
        async move { as_root(&channel, &format!("cd {there} && while cat file; do sleep 0.1; done")).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(fixed);
    assert_ne!(using.await.expect("it ends"), 1 << 30);
    while as_root(&channel, &format!("test -e {there}")).await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(shell(&channel, &format!("cat {at}/there")).await.trim(), IMAGE_VERSION.to_string());
    let missing = channel.share(&spec(&dir.path().join("missing"), Access::ReadOnly, false)).await;
    assert!(missing.expect_err("it is missing").reason.contains("missing"));
}
