//! Measurements of virtual machines.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use codebox_testkit::{BASE_IMAGE, Codebox, machine_image, start_machine};
use tempfile::TempDir;

use super::table::{Row, Threshold};

/// Name of the box.
const BOX: &str = "bench-machine";

/// Time that an unused machine has to give memory back. It does so after half a minute, and reports free memory in the seconds after that.
const IDLE: Duration = Duration::from_secs(60);

/// Time in which wake-ups are counted.
const COUNTED: Duration = Duration::from_secs(20);

/// A machine, which is removed with the value.
struct Machine(TempDir);

impl Machine {
    fn start() -> Self {
        let home = tempfile::Builder::new().tempdir_in("/tmp").expect("a directory");
        fs::create_dir_all(home.path().join("config")).expect("a directory");
        let image = machine_image(env!("CARGO_MANIFEST_DIR"));
        let config = format!("[vm]\nimage = {image:?}\nmemory = '1G'\ndisk = '12G'\n");
        fs::write(home.path().join("config/config.toml"), config).expect("it is ours");
        let machine = Self(home);
        start_machine(&|| machine.codebox(&[]), machine.0.path()).expect("the machine starts");
        machine
    }

    fn codebox(&self, args: &[&str]) -> Codebox {
        let path = std::env::var("PATH").unwrap_or_default();
        let command = Codebox::new(Path::new(env!("CARGO_BIN_EXE_codebox")), self.0.path()).env("PATH", path);
        command.env("CODEBOX_HOST", "off").args(args.iter().copied()).deadline(Duration::from_secs(600))
    }

    /// Runs a command, checks its output, and returns its time in milliseconds.
    fn time_of(&self, args: &[&str], output: &str) -> f64 {
        let began = Instant::now();
        let ran = self.codebox(args).run().expect("it runs");
        let elapsed = began.elapsed();
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr_text());
        assert_eq!(ran.stdout_text(), output, "{args:?}");
        elapsed.as_secs_f64() * 1000.0
    }

    /// Returns the processes of this machine whose command line has all of these words, and the home.
    fn processes(&self, words: &[&str]) -> Vec<i32> {
        let entries = fs::read_dir("/proc").expect("there are processes").flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let home = self.0.path().to_str().expect("a path in UTF-8");
        ids.filter(|id: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
            let (line, variables) = (read("cmdline"), read("environ"));
            let (line, variables) = (String::from_utf8_lossy(&line), String::from_utf8_lossy(&variables));
            words.iter().all(|word| line.contains(word)) && (line.contains(home) || variables.contains(home))
        })
        .collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.codebox(&["box", "stop", BOX]).run();
        let _ = self.codebox(&["vm", "reset"]).run();
    }
}

/// Returns the resident memory of processes in MiB.
fn resident(ids: &[i32]) -> f64 {
    let of = |id: &i32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    ids.iter().map(of).sum::<f64>() / 1024.0
}

/// Returns how often the threads of processes have waited for something.
fn waits(ids: &[i32]) -> u64 {
    let threads = ids.iter().flat_map(|id| fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten());
    let of = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    threads.map(of).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures with this many samples, the alternatives in turns. No row if there is no image.
pub fn rows(samples: usize) -> Vec<Row> {
    let image = machine_image(env!("CARGO_MANIFEST_DIR"));
    if !image.join("manifest.json").exists() {
        eprintln!("virtual machines are not measured: {} has no image", image.display());
        return Vec::new();
    }
    let machine = Machine::start();
    let job = ["run", "--isolation", "vm", "--image", BASE_IMAGE, "-c", "print(6 * 7)"];
    let podman = ["vm", "shell", "--", "podman", "run", "--rm", BASE_IMAGE, "python3", "-c", "print(6 * 7)"];
    // The first container of an image takes longer.
    for args in [&job[..], &podman] {
        machine.time_of(args, "42\n");
    }
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..samples {
        times[0].push(machine.time_of(&job, "42\n"));
        times[1].push(machine.time_of(&podman, "42\n"));
    }
    let started = machine.codebox(&["box", "start", "--name", BOX, "--isolation", "vm", "--image", BASE_IMAGE]).run();
    let started = started.expect("it runs");
    assert_eq!(started.code, Some(0), "{}", started.stderr_text());
    for _ in 0..samples * 2 {
        times[2].push(machine.time_of(&["box", "exec", BOX, "--", "true"], ""));
        times[3].push(machine.time_of(&["vm", "shell", "--", "true"], ""));
    }
    machine.codebox(&["box", "stop", BOX]).run().expect("it runs");
    let [job, podman, exec, shell] = times.map(median);
    sleep(IDLE);
    let (qemu, keeper) = (machine.processes(&["qemu-system"]), machine.processes(&["keep-vm"]));
    assert_eq!((qemu.len(), keeper.len()), (1, 1), "{qemu:?} {keeper:?}");
    let memory = resident(&qemu);
    let before = waits(&keeper);
    sleep(COUNTED);
    let wakeups = waits(&keeper) - before;
    vec![
        Row {
            label: "a job in a running machine, less 20 ms / `podman run` over its shell",
            threshold: Threshold::AtMost(1.2),
            measured: Some((job - 20.0) / podman),
            unit: "x",
            detail: format!("{job:.0} ms, {podman:.0} ms"),
        },
        Row {
            label: "`box exec` of `true` in the machine, less `vm shell` of `true`",
            threshold: Threshold::AtMost(5.0),
            measured: Some(exec - shell),
            unit: " ms",
            detail: format!("{exec:.1} ms, {shell:.1} ms"),
        },
        Row {
            label: "resident memory of an unused machine of 1 GiB",
            threshold: Threshold::AtMost(512.0),
            measured: Some(memory),
            unit: " MiB",
            detail: format!("{} s after the last use", IDLE.as_secs()),
        },
        Row {
            label: "wake-ups of codebox for an unused machine",
            threshold: Threshold::AtMost(0.0),
            measured: Some(wakeups as f64),
            unit: "",
            detail: format!("in {} s", COUNTED.as_secs()),
        },
    ]
}
