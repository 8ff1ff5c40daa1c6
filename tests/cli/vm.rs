//! `codebox vm`, and jobs in a virtual machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use codebox_testkit::{BASE_IMAGE, Codebox, Input, ProcessResult, machine_image, start_machine};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run};

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

/// A machine that runs, with the image of a container for the tests.
struct Running {
    home: Home,
    dir: TempDir,
}

impl Running {
    fn start() -> Self {
        let home = Home::new(&format!(
            "[vm]\nimage = {:?}\nmemory = '1G'\ndisk = '12G'\n",
            machine_image(env!("CARGO_MANIFEST_DIR"))
        ));
        let running = Self { home, dir: folder() };
        let up = start_machine(&|| running.home.command(&[]), running.dir.path()).expect("it starts");
        assert!(up.contains("starting the virtual machine") && up.contains("its Podman is at "), "{up}");
        running
    }

    fn shell(&self, words: &[&str], input: &[u8]) -> ProcessResult {
        let args = [&["vm", "shell", "--"], words].concat();
        run(self.home.command(&args).input(Input::Bytes(input.to_vec())))
    }

    /// Returns the arguments of a job in the machine.
    fn job<'a>(&self, options: &[&'a str], text: &'a str) -> Vec<&'a str> {
        let first = ["run", "--json", "--isolation", "vm", "--image", BASE_IMAGE];
        [&first[..], options, &["-c", text]].concat()
    }

    fn run(&self, options: &[&str], text: &str) -> Value {
        self.home.json(&self.job(options, text))
    }

    #[track_caller]
    fn assert_works(&self) {
        let report = self.run(&[], "print(6 * 7)");
        assert_eq!(report["stdout"], "42\n", "{report}");
    }

    /// Starts a job that runs until something ends it, and calls a function when its program has started.
    fn during_a_job(&self, act: impl FnOnce(&mut std::process::Child)) -> (Option<i32>, Value) {
        let data = self.dir.path().join("job");
        fs::create_dir_all(&data).expect("a directory");
        let grant = format!("{}:/data:rw", data.display());
        let text = "import time\nopen('/data/started', 'w').close()\ntime.sleep(4)\nprint('over')";
        let args = self.job(&["--dir", &grant], text);
        let mut child = self.home.command(&args).command().stdout(Stdio::piped()).spawn().expect("it starts");
        wait_until_started(&data.join("started"));
        act(&mut child);
        let output = child.wait_with_output().expect("it ends");
        fs::remove_file(data.join("started")).expect("it was written");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Sends a signal to the processes of this machine whose command line has this word.
    fn signal(&self, signal: &str, word: &str) {
        let pattern = match word {
            "qemu" => format!("qemu-system.*{}", self.home.0.path().display()),
            other => other.to_owned(),
        };
        assert!(Command::new("pkill").args([signal, "-f", &pattern]).status().expect("pkill starts").success());
    }

    fn shared(&self) -> Value {
        self.home.json(&["vm", "status", "--json"])["running"]["shared"].clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.home.command(&["vm", "reset"]).run();
    }
}

/// Waits for the file of a program that has started. The first container of an image takes most of a minute in a machine that is translated.
fn wait_until_started(file: &Path) {
    let began = std::time::Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < Duration::from_secs(300), "the program has not started");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs QEMU, Podman and the image of cargo xtask vm-image"]
fn jobs_run_in_the_machine() {
    let machine = Running::start();
    let (home, folder) = (&machine.home, &machine.dir);
    let status = home.json(&["vm", "status", "--json"]);
    assert_eq!(status["state"], "running", "{status}");
    let shell = machine.shell(&["sh", "-c", "id -u; cat; echo no >&2; exit 3"], b"typed");
    assert_eq!(
        (shell.code, shell.stdout_text().as_str(), shell.stderr_text().as_str()),
        (Some(3), "1000\ntyped", "no\n")
    );
    // Without words, a shell reads its commands.
    let shell = run(home.command(&["vm", "shell", "--root"]).input(Input::Bytes(b"id -un\nexit 4\n".to_vec())));
    assert_eq!((shell.code, shell.stdout_text().as_str()), (Some(4), "root\n"));
    // A job with a directory of this machine.
    let dir = folder.path().join("data");
    fs::create_dir(&dir).expect("a directory");
    fs::write(dir.join("in.txt"), "from the host").expect("it is ours");
    let text = "import os\nprint(open('/data/in.txt').read(), os.getuid())\n\
                open('/data/out.txt', 'w').write('from the guest')\nopen('/work/made', 'w').write('x')\nprint(os.listdir('/data'))";
    let grant = format!("{}:/data:rw", dir.display());
    let report = machine.run(&["--dir", &grant], text);
    assert_eq!(report["success"], true, "{report}");
    let stdout = report["stdout"].as_str().expect("text");
    assert!(stdout.starts_with("from the host 1000\n") && stdout.contains("out.txt"), "{stdout}");
    assert_eq!((&report["provenance"]["isolation"], &report["provenance"]["backend"]), (&"vm".into(), &"vm".into()));
    assert_eq!(fs::read_to_string(dir.join("out.txt")).expect("it was written"), "from the guest");
    assert_eq!(report["files"]["created"][0]["guest_path"], "/work/made", "{report}");
    // Limits hold in the container of the machine.
    assert_eq!(machine.run(&["--timeout", "2s"], "while True: pass")["kind"], "timeout_wall");
    let grown = machine.run(&["--memory", "128M"], "x = [bytearray(8 << 20) for _ in range(100)]");
    assert_eq!(grown["kind"], "memory_limit", "{grown}");
    assert!(grown["usage"]["peak_memory_bytes"].as_u64().is_some_and(|peak| peak <= 129 << 20), "{grown}");
    // Podman creates containers of several jobs at one time without an end of its service.
    let texts: Vec<String> = (0..4).map(|number| format!("print({number})")).collect();
    std::thread::scope(|scope| {
        let jobs: Vec<_> = texts.iter().map(|text| scope.spawn(|| machine.run(&[], text))).collect();
        for (number, job) in jobs.into_iter().enumerate() {
            let report = job.join().expect("the thread ends");
            assert_eq!(report["stdout"], format!("{number}\n"), "{report}");
        }
    });
    assert_eq!(home.run(&["vm", "logs"]).stdout_text().matches("Podman has ended").count(), 0);
    // The directories are not shared after the jobs.
    assert_eq!(machine.shared(), serde_json::json!([]));
    assert_eq!(home.run(&["vm", "down"]).code, Some(0));
    assert_eq!(home.json(&["vm", "status", "--json"])["state"], "stopped");
    // A job starts it.
    let started = run(home.command(&["run", "--isolation", "vm", "--image", BASE_IMAGE, "-c", "print(1)"]));
    assert_eq!(started.stdout_text(), "1\n", "{}", started.stderr_text());
    assert!(started.stderr_text().contains("starting the virtual machine"), "{}", started.stderr_text());
    assert!(home.run(&["vm", "reset"]).stderr_text().contains("is removed"));
    assert_eq!(home.json(&["vm", "status", "--json"])["state"], "missing");
}

/// Each part of the tier is killed, stopped or filled under a job, and the next job works.
#[test]
#[ignore = "needs QEMU, Podman and the image of cargo xtask vm-image"]
fn machines_recover() {
    let machine = Running::start();
    machine.assert_works();
    // The process that keeps the machine is killed, and the next job finds the machine.
    let (status, report) = machine.during_a_job(|_| machine.signal("-9", "codebox-full keep-vm"));
    assert_eq!((status, &report["error"]["kind"]), (Some(125), &"engine_lost".into()), "{report}");
    machine.assert_works();
    // A machine that no process keeps is a leftover.
    machine.signal("-9", "codebox-full keep-vm");
    let listed = machine.home.run(&["gc", "--dry-run"]).stdout_text();
    assert!(listed.contains("would remove virtual machine codebox (this machine)"), "{listed}");
    let removed = machine.home.run(&["gc"]).stdout_text();
    assert!(removed.contains("removed virtual machine codebox (this machine)"), "{removed}");
    assert_eq!(machine.home.json(&["vm", "status", "--json"])["state"], "stopped");
    machine.assert_works();
    // The machine is killed: as if its power failed.
    let (status, report) = machine.during_a_job(|_| machine.signal("-9", "qemu"));
    assert_eq!((status, &report["error"]["kind"]), (Some(125), &"engine_lost".into()), "{report}");
    assert_eq!(machine.home.json(&["vm", "status", "--json"])["state"], "stopped");
    machine.assert_works();
    // The command is killed. Its directories go with it, and its container is a leftover.
    machine.during_a_job(|child| child.kill().expect("it runs"));
    assert_eq!(machine.shared(), serde_json::json!([]));
    machine.assert_works();
    let swept = machine.home.run(&["gc"]).stdout_text();
    assert!(!swept.contains("cannot list containers of vm"), "{swept}");
    let left = machine.shell(&["podman", "ps", "-aq"], b"");
    assert_eq!(left.stdout_text(), "", "{}", left.stderr_text());
    // A command of the machine ends with its client.
    let mut command = machine.home.command(&["vm", "shell", "--", "sleep", "3111"]).command();
    let mut client = command.stdin(Stdio::piped()).spawn().expect("it starts");
    while machine.shell(&["sh", "-c", "grep -al 'sleep.311[1]' /proc/[0-9]*/cmdline"], b"").code != Some(0) {
        std::thread::sleep(Duration::from_millis(100));
    }
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while machine.shell(&["sh", "-c", "grep -al 'sleep.311[1]' /proc/[0-9]*/cmdline"], b"").code == Some(0) {
        assert!(std::time::Instant::now() < until, "the command goes on");
    }
    // The machine is suspended for a while.
    let (status, report) = machine.during_a_job(|_| {
        machine.signal("-STOP", "qemu");
        std::thread::sleep(Duration::from_secs(8));
        machine.signal("-CONT", "qemu");
    });
    assert_eq!((status, &report["stdout"]), (Some(0), &"over\n".into()), "{report}");
    // Its disk is full.
    let fill = "fallocate -l $(($(df --output=avail -B1 / | tail -1) - 65536)) /var/lib/filled || dd if=/dev/zero of=/var/lib/filled bs=1M";
    run(machine.home.command(&["vm", "shell", "--root", "--", "sh", "-c", fill]));
    let full = machine.run(&[], "print(1)");
    let message = full["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no space left"), "{full}");
    run(machine.home.command(&["vm", "shell", "--root", "--", "rm", "/var/lib/filled"]));
    machine.assert_works();
}
