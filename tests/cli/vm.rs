//! `codebox vm`, and jobs in a virtual machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use codebox_testkit::{Codebox, ProcessResult};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run};

/// Image of a container for the tests, which `tests/engines/up` makes.
const BASE_IMAGE: &str = "localhost/codebox-test:1";

struct Home(TempDir);

impl Home {
    fn new(config: &str) -> Self {
        let home = folder();
        kit().share_runtimes(home.path()).expect("a home");
        fs::create_dir_all(home.path().join("config")).expect("a directory");
        fs::write(home.path().join("config/config.toml"), config).expect("it is ours");
        Self(home)
    }

    fn command(&self, args: &[&str]) -> Codebox {
        let path = std::env::var("PATH").unwrap_or_default();
        let command = kit().codebox().home(self.0.path()).env("CODEBOX_HOST", "off").env("PATH", &path);
        command.args(args.iter().copied()).deadline(Duration::from_secs(600))
    }

    fn run(&self, args: &[&str]) -> ProcessResult {
        run(self.command(args))
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        serde_json::from_str(&ran.stdout_text()).unwrap_or_else(|_| panic!("{args:?}: {}", ran.stderr_text()))
    }
}

#[test]
fn without_an_image_there_is_no_machine() {
    let home = Home::new("");
    let status = home.run(&["vm", "status", "--json"]);
    let document: Value = serde_json::from_str(&status.stdout_text()).expect("a document");
    assert_eq!((status.code, &document["state"], &document["provider"]), (Some(1), &"missing".into(), &"qemu".into()));
    assert_one_line(&home.run(&["vm", "up"]), 125, "image of the virtual machine: cannot read ");
    assert_one_line(&home.run(&["vm", "shell", "--", "true"]), 125, "image of the virtual machine: ");
    let report = home.json(&["run", "--json", "--isolation", "vm", "-c", "print(1)"]);
    assert_eq!(report["error"]["kind"], "engine_unavailable", "{report}");
    assert!(home.run(&["vm", "down"]).stderr_text().contains("the virtual machine"), "it is named");
    assert!(home.run(&["vm", "reset"]).stderr_text().contains("there is no virtual machine"));
    assert_eq!(home.run(&["vm", "logs"]).stdout_text(), "");
}

/// Returns the directory of the image that `cargo xtask vm-image` makes.
fn image() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm-image");
    std::env::var_os("CODEBOX_VM_IMAGE").map_or_else(default, PathBuf::from)
}

#[test]
#[ignore = "needs QEMU, Podman and the image of cargo xtask vm-image"]
fn jobs_run_in_the_machine() {
    let home = Home::new(&format!("[vm]\nimage = {:?}\nmemory = '1G'\ndisk = '12G'\n", image()));
    let up = home.run(&["vm", "up"]);
    assert_eq!(up.code, Some(0), "{} {}", up.stderr_text(), home.run(&["vm", "logs"]).stdout_text());
    let up = up.stderr_text();
    let socket = up.split_once("its Podman is at ").expect("a socket").1.trim();
    let status = home.json(&["vm", "status", "--json"]);
    assert_eq!(status["state"], "running", "{status}");
    let shell = home.run(&["vm", "shell", "--", "sh", "-c", "id -u; echo no >&2; exit 3"]);
    assert_eq!((shell.code, shell.stdout_text().as_str()), (Some(3), "1000\n"));
    // An image from this machine.
    let folder = folder();
    let archive = folder.path().join("image.tar");
    let podman = |args: &[&str]| {
        let done = Command::new("podman").args(args).output().expect("podman starts");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    podman(&["save", "-o", archive.to_str().expect("text"), BASE_IMAGE]);
    podman(&["--url", &format!("unix://{socket}"), "load", "-i", archive.to_str().expect("text")]);
    // A job with a directory of this machine.
    let dir = folder.path().join("data");
    fs::create_dir(&dir).expect("a directory");
    fs::write(dir.join("in.txt"), "from the host").expect("it is ours");
    let text = "import os\nprint(open('/data/in.txt').read(), os.getuid())\n\
                open('/data/out.txt', 'w').write('from the guest')\nopen('/work/made', 'w').write('x')\nprint(os.listdir('/data'))";
    let grant = format!("{}:/data:rw", dir.display());
    let job = ["run", "--json", "--isolation", "vm", "--image", BASE_IMAGE, "--dir", &grant, "-c", text];
    let report = home.json(&job);
    assert_eq!(report["success"], true, "{report}");
    let stdout = report["stdout"].as_str().expect("text");
    assert!(stdout.starts_with("from the host 1000\n") && stdout.contains("out.txt"), "{stdout}");
    assert_eq!((&report["provenance"]["isolation"], &report["provenance"]["backend"]), (&"vm".into(), &"vm".into()));
    assert_eq!(fs::read_to_string(dir.join("out.txt")).expect("it was written"), "from the guest");
    assert_eq!(report["files"]["created"][0]["guest"], "/work/made", "{report}");
    // Limits hold in the container of the machine.
    let limited =
        ["run", "--json", "--isolation", "vm", "--image", BASE_IMAGE, "--timeout", "2s", "-c", "while True: pass"];
    assert_eq!(home.json(&limited)["error"]["kind"], "timeout_wall");
    // The directories are not shared after the jobs.
    let status = home.json(&["vm", "status", "--json"]);
    assert_eq!(status["running"]["shared"], serde_json::json!([]), "{status}");
    // The process that keeps the machine is killed, and the next job finds the machine.
    let killed = Command::new("pkill").args(["-9", "-f", "codebox-full keep-vm"]).status().expect("pkill starts");
    assert!(killed.success());
    let again = home.json(&["run", "--json", "--isolation", "vm", "--image", BASE_IMAGE, "-c", "print(2)"]);
    assert_eq!(again["stdout"], "2\n", "{again}");
    assert_eq!(home.run(&["vm", "down"]).code, Some(0));
    assert_eq!(home.json(&["vm", "status", "--json"])["state"], "stopped");
    assert!(home.run(&["vm", "reset"]).stderr_text().contains("is removed"));
    assert_eq!(home.json(&["vm", "status", "--json"])["state"], "missing");
}
