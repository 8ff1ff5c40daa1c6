//! Providers of virtual machines with stand-ins for the programs of Lima and WSL, which check every argument and answer as those programs do,
//! and with the real program of the machine.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use codebox_core::Silent;
use codebox_vm::{Channel, Layer, Lima, Provider, VmError, VmImage, VmSpec, VmState, Wsl};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the command of the interpreter of the stand-ins. The program in the search path can be a script that looks for one.
fn interpreter() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let path = String::from_utf8(found.expect("python3 starts").stdout).expect("text");
        format!("{} -IS", path.trim())
    })
}

/// Directory with stand-ins, their scenario, an image, and a machine.
struct Place(TempDir);

impl Place {
    fn new(source: &str, names: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path(), open.clone()).expect("it is ours");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes").join(source));
        let text = text.expect("a stand-in").replacen("/usr/bin/env python3", interpreter(), 1);
        for name in names {
            fs::write(dir.path().join(name), &text).expect("it is ours");
            fs::set_permissions(dir.path().join(name), open.clone()).expect("it is ours");
        }
        let guest = dir.path().join("guest");
        fs::copy(env!("CARGO_BIN_EXE_codebox-vm-guest"), &guest).expect("a copy");
        fs::set_permissions(guest, open).expect("it is ours");
        let place = Self(dir);
        place.tell(json!({}));
        fs::create_dir(place.file("image")).expect("a directory");
        for name in ["vmlinuz", "initrd.gz", "root.img", "root.tar", "vm-guest"] {
            fs::write(place.file("image").join(name), name).expect("it is ours");
        }
        VmImage::seal(&place.file("image")).expect("an image");
        place
    }

    fn lima() -> (Self, Lima) {
        let place = Self::new("limactl.py", &["limactl", "ssh"]);
        let lima = Lima::new(place.file("vm")).with_programs(place.0.path().to_owned());
        (place, lima)
    }

    fn wsl() -> (Self, Wsl) {
        let place = Self::new("wsl.py", &["wsl.exe"]);
        let wsl = Wsl::new(place.file("vm")).with_program(place.file("wsl.exe"));
        (place, wsl)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn tell(&self, scenario: Value) {
        fs::write(self.file("scenario.json"), scenario.to_string()).expect("it is ours");
    }

    fn image(&self, provider: &dyn Provider) -> VmImage {
        VmImage::open(&self.file("image"), provider.image_files()).expect("an image")
    }

    fn create(&self, provider: &dyn Provider) -> Result<(), VmError> {
        provider.create(&self.image(provider), &spec(), &Silent)
    }

    fn start(&self, provider: &dyn Provider) -> Result<(), VmError> {
        provider.start(&self.image(provider), &spec())
    }

    /// Returns the numbers of calls with this word.
    fn count(&self, word: &str) -> usize {
        let calls = fs::read_to_string(self.file("calls")).unwrap_or_default();
        calls.lines().filter(|call| call.contains(&format!("{word:?}"))).count()
    }
}

fn spec() -> VmSpec {
    VmSpec::for_machine(4, 8192)
}

/// Connects to the program, and reads facts about the machine.
fn reach(provider: &dyn Provider) -> Result<(), VmError> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    executor.expect("an executor").block_on(async {
        let channel = Channel::open(provider.connect().await?, Duration::from_secs(20)).await?;
        let facts = channel.facts().await?;
        assert!(facts.memory[0] > 0, "{facts:?}");
        Ok(())
    })
}

/// Makes, starts, uses, ends and removes a machine.
fn live(place: &Place, provider: &dyn Provider) {
    provider.probe().expect("it is installed");
    assert_eq!(provider.state(), Ok(VmState::Missing));
    provider.kill().expect("nothing to end");
    provider.delete().expect("nothing to remove");
    place.create(provider).expect("it is made");
    place.create(provider).expect("it exists");
    assert_eq!(provider.state(), Ok(VmState::Stopped));
    place.start(provider).expect("it starts");
    place.start(provider).expect("it runs");
    assert_eq!(provider.state(), Ok(VmState::Running));
    reach(provider).expect("it answers");
    reach(provider).expect("it answers again");
    provider.kill().expect("it ends");
    assert_eq!(provider.state(), Ok(VmState::Stopped));
    provider.delete().expect("it is removed");
    assert_eq!(provider.state(), Ok(VmState::Missing));
}

#[track_caller]
fn assert_failure(done: Result<(), VmError>, layer: Layer, reason: &str, fix: &str) {
    let error = done.expect_err("it fails");
    assert_eq!(error.layer, layer, "{error:?}");
    assert!(error.reason.contains(reason) && error.fix.contains(fix), "{error:?}");
}

#[test]
fn lima_makes_and_runs_a_machine() {
    let (place, lima) = Place::lima();
    live(&place, &lima);
    assert_eq!((place.count("create"), place.count("start")), (1, 1));
    // The program of the machine is copied once.
    assert_eq!((place.count("sha256sum"), place.count("sh")), (2, 1));
}

#[test]
fn lima_replaces_the_program_of_another_version() {
    let (place, lima) = Place::lima();
    place.create(&lima).expect("it is made");
    let guest = place.file("vm/lima/codebox/guest");
    fs::write(&guest, "an earlier program").expect("it is ours");
    place.start(&lima).expect("it starts");
    assert_eq!(fs::read_to_string(guest).expect("a program"), "vm-guest");
}

#[test]
fn lima_says_what_is_missing() {
    let (place, lima) = Place::lima();
    for (told, reason, fix) in [
        (
            json!({ "version": "limactl version 0.23.2" }),
            "limactl version 0.23.2 is older than 1.0",
            "brew upgrade lima",
        ),
        (json!({ "root": true }), "must not run as the root user", "another user"),
    ] {
        place.tell(told);
        assert_failure(lima.probe(), Layer::Hypervisor, reason, fix);
    }
    for version in ["limactl version 1.0.0", "limactl version 2.2.0-rc.0", "limactl version <unknown>"] {
        place.tell(json!({ "version": version }));
        assert_eq!(lima.probe(), Ok(()), "{version}");
    }
    fs::remove_file(place.file("limactl")).expect("it is ours");
    assert_failure(lima.probe(), Layer::Hypervisor, "limactl is not installed", "brew install lima");
    let long = Lima::new(place.file(&"x".repeat(80))).with_programs(place.0.path().to_owned());
    fs::copy(place.file("ssh"), place.file("limactl")).expect("a copy");
    assert_failure(long.probe(), Layer::Hypervisor, "the maximum of Lima", "CODEBOX_HOME");
}

#[test]
fn a_machine_that_lima_cannot_make_leaves_nothing() {
    for (text, layer, fix) in [
        ("failed to create driver instance: VZ driver requires macOS 13 or higher to run", Layer::Hypervisor, "macOS"),
        (
            "failed to download `https://cloud.debian.org/x`: unexpected HTTP status Not Found, body=`<html>`",
            Layer::Image,
            "update codebox",
        ),
        (
            "failed to download `https://cloud.debian.org/x`: expected digest `sha512:aa`, got `sha512:bb`",
            Layer::Image,
            "proxy",
        ),
        (
            "failed to download `https://cloud.debian.org/x`: write /c/data.tmp.123.1: no space left on device",
            Layer::Vm,
            "disk space",
        ),
    ] {
        let (place, lima) = Place::lima();
        place.tell(json!({ "create": text }));
        assert_failure(place.create(&lima), layer, text, fix);
        assert_eq!(lima.state(), Ok(VmState::Missing));
        place.tell(json!({}));
        place.create(&lima).expect("it is made");
    }
}

#[test]
fn states_of_lima_are_told_apart() {
    let (place, lima) = Place::lima();
    // Lima would make a machine of Ubuntu.
    assert_failure(place.start(&lima), Layer::Vm, "it has not been made", "codebox vm up");
    place.create(&lima).expect("it is made");
    place.tell(json!({ "start": "did not receive an event with the `running` status" }));
    assert_failure(place.start(&lima), Layer::Vm, "did not receive an event", "codebox vm logs");
    assert!(lima.log().contains("Creating iso file"), "{}", lima.log());
    // The process that kept the machine was killed.
    place.tell(json!({ "status": "Broken", "errors": ["qemu driver is running but host agent is not"] }));
    assert_eq!(lima.state(), Ok(VmState::Stopped));
    place.start(&lima).expect("it starts");
    place.tell(json!({ "status": "Broken", "errors": ["host agent is running but driver is not"] }));
    assert_eq!(lima.state(), Ok(VmState::Running));
    place.tell(json!({}));
    lima.kill().expect("it ends");
    fs::remove_file(place.file("vm/lima/codebox/disk")).expect("it is ours");
    assert_eq!(lima.state(), Ok(VmState::Damaged("its disk is missing".to_owned())));
    assert_failure(place.start(&lima), Layer::Vm, "its disk is missing", "codebox vm reset");
    lima.delete().expect("it is removed");
    assert_eq!(lima.state(), Ok(VmState::Missing));
}

#[test]
fn a_connection_that_lima_refuses_is_an_error_of_the_network() {
    let (place, lima) = Place::lima();
    place.create(&lima).expect("it is made");
    place.start(&lima).expect("it starts");
    place.tell(json!({ "ssh": "kex_exchange_identification: Connection closed by remote host" }));
    assert_failure(reach(&lima), Layer::Network, "the connection was lost", "codebox vm");
    assert!(lima.log().contains("kex_exchange_identification"), "{}", lima.log());
}

#[test]
fn two_processes_make_one_machine() {
    fn both(place: &Place, provider: &(dyn Provider + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    place.create(provider).expect("it is made");
                    place.start(provider).expect("it starts");
                });
            }
        });
    }
    let (place, lima) = Place::lima();
    both(&place, &lima);
    assert_eq!((place.count("create"), place.count("start")), (1, 1));
    let (place, wsl) = Place::wsl();
    both(&place, &wsl);
    assert_eq!(place.count("--import"), 1);
}

#[test]
fn wsl_makes_and_runs_a_machine() {
    for told in [
        json!({}),
        json!({ "utf16": true, "version": "WSL-Version: 2.1.5.0" }),
        json!({ "distributions": {}, "label": "Fehlercode: " }),
        json!({ "distributions": {}, "fails_without": true, "utf16": true, "end": "\r\r\n", "label": "Code d'erreur\u{a0}: " }),
        json!({ "warning": "wsl: Hyper-V firewall is not supported\r\n<3>WSL (12 - Relay) ERROR: x\n" }),
        json!({ "interrupted": 2, "label": "エラー コード: " }),
    ] {
        let (place, wsl) = Place::wsl();
        place.tell(told);
        live(&place, &wsl);
        assert_eq!((place.count("--import"), place.count("--shutdown")), (1, 0));
    }
}

#[test]
fn wsl_says_what_is_missing() {
    let (place, wsl) = Place::wsl();
    for (told, reason, fix) in [
        (json!({ "missing": true }), "WSL is not installed", "wsl.exe --install --no-distribution"),
        (json!({ "inbox": true }), "WSL is older than 2.0", "wsl.exe --update"),
        (json!({ "version": "WSL version: 1.2.5.0", "utf16": true }), "WSL is older than 2.0", "wsl.exe --update"),
    ] {
        place.tell(told);
        assert_failure(wsl.probe(), Layer::Hypervisor, reason, fix);
    }
    place.tell(json!({ "interrupted": 3 }));
    assert_failure(wsl.probe(), Layer::Vm, "RPC_S_CALL_FAILED", "");
}

#[test]
fn a_machine_that_wsl_cannot_make_leaves_nothing() {
    for (text, code, stderr, layer, fix) in [
        (
            "WSL2 is unable to start since virtualization is not enabled on this machine.",
            "Wsl/Service/RegisterDistro/CreateVm/HCS/HCS_E_HYPERV_NOT_INSTALLED",
            "",
            Layer::Hypervisor,
            "virtualization",
        ),
        (
            "There is not enough space on the disk. ",
            "Wsl/Service/RegisterDistro/0x80070070",
            "",
            Layer::Vm,
            "disk space",
        ),
        (
            "Importing the distribution failed.",
            "Wsl/Service/RegisterDistro/WSL_E_IMPORT_FAILED",
            "bsdtar: Error opening archive: Unrecognized archive format\n",
            Layer::Image,
            "image",
        ),
    ] {
        let (place, wsl) = Place::wsl();
        place.tell(json!({ "import": [text, code, stderr] }));
        assert_failure(place.create(&wsl), layer, code, fix);
        assert_eq!(wsl.state(), Ok(VmState::Missing));
        place.tell(json!({}));
        place.create(&wsl).expect("it is made");
    }
}

/// An import that a restart of Windows has interrupted is invisible in most lists, and forbids another one.
#[test]
fn an_interrupted_import_is_made_again() {
    let (place, wsl) = Place::wsl();
    place.create(&wsl).expect("it is made");
    let file = place.file("distributions.json");
    let text = fs::read_to_string(&file).expect("a list");
    fs::write(&file, text.replace("Stopped", "Installing")).expect("it is ours");
    assert!(matches!(wsl.state(), Ok(VmState::Damaged(_))), "{:?}", wsl.state());
    assert_failure(place.start(&wsl), Layer::Vm, "it has not been made", "codebox vm up");
    place.create(&wsl).expect("it is made");
    assert_eq!(wsl.state(), Ok(VmState::Stopped));
}

#[test]
fn a_damaged_disk_of_wsl_is_named() {
    let (place, wsl) = Place::wsl();
    place.create(&wsl).expect("it is made");
    for (code, fix) in [
        ("Wsl/Service/CreateInstance/MountVhd/HCS/ERROR_FILE_NOT_FOUND", "codebox vm reset"),
        ("Wsl/Service/CreateInstance/MountDisk/HCS/ERROR_FILE_NOT_FOUND", "codebox vm reset"),
        ("Wsl/Service/CreateInstance/WSL_E_DISK_CORRUPTED", "codebox vm reset"),
        ("Wsl/Service/CreateInstance/MountDisk/HCS/ERROR_SHARING_VIOLATION", "the program that uses its disk"),
    ] {
        place.tell(json!({ "exec": ["Failed to attach the disk.", code] }));
        assert_failure(place.start(&wsl), Layer::Vm, code, fix);
    }
    // Podman is missing in the machine.
    place.tell(json!({ "check": 1, "warning": "codebox-vm: cannot start Podman: No such file or directory\n" }));
    assert_failure(place.start(&wsl), Layer::Vm, "cannot start Podman", "codebox vm logs");
}
