//! Measurements of boxes.

use std::process::{Command, Stdio};
use std::time::Instant;

use codebox_testkit::BASE_IMAGE;

use super::table::{Row, Threshold};

/// Calls of a command in one loop, by which the cost of a shim is measured.
const CALLS: usize = 200;

/// A running box, which is stopped when the value is dropped.
struct Sandbox {
    name: String,
    engine: &'static str,
    home: tempfile::TempDir,
}

impl Sandbox {
    /// Starts a box; `None` if the engine is missing.
    fn start(engine: &'static str) -> Option<Self> {
        let home = tempfile::tempdir().expect("a directory");
        let sandbox = Self { name: format!("bench-{engine}-{}", std::process::id()), engine, home };
        let options = ["box", "start", "--name", &sandbox.name, "--engine", engine, "--image", BASE_IMAGE];
        let started = sandbox.codebox(&options).output().expect("it starts");
        let reason = String::from_utf8_lossy(&started.stderr).into_owned();
        if !started.status.success() {
            eprintln!("{engine} is not measured: {reason}");
        }
        started.status.success().then_some(sandbox)
    }

    fn codebox(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codebox"));
        command.args(args).env("CODEBOX_HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    fn exec(&self, words: &[&str]) -> Command {
        let mut command = self.codebox(&["box", "exec", &self.name, "--"]);
        command.args(words);
        command
    }

    fn engine_exec(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.engine);
        command.args(["exec", &self.name]).args(words).stdin(Stdio::null());
        command
    }

    /// Returns the time of one run of a loop in the box, in milliseconds for each call.
    fn time_of_call(&self, call: &str) -> f64 {
        let script = format!(
            "s=$EPOCHREALTIME; for ((i = 0; i < {CALLS}; i++)); do {call} /etc/passwd > /dev/null; done; e=$EPOCHREALTIME; echo $((${{e/./}} - ${{s/./}}))"
        );
        let done = self.exec(&["bash", "-c", &script]).output().expect("it runs");
        let micros: f64 = String::from_utf8_lossy(&done.stdout).trim().parse().expect("a number");
        micros / 1000.0 / CALLS as f64
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.codebox(&["box", "stop", &self.name]).output();
    }
}

/// Runs a command, checks its output, and returns its time in milliseconds.
fn time_of(mut command: Command, output: &str) -> f64 {
    let began = Instant::now();
    let done = command.output().expect("it runs");
    let elapsed = began.elapsed();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).starts_with(output), "{command:?}");
    elapsed.as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures the engines that are there, with this many samples, the alternatives in turns.
pub fn rows(samples: usize) -> Vec<Row> {
    ["podman", "docker"].into_iter().flat_map(|engine| of_engine(engine, samples)).collect()
}

fn of_engine(engine: &'static str, samples: usize) -> Vec<Row> {
    const PIPELINE: &str = "cat /etc/passwd | grep root";
    const BARE_PIPELINE: &str = "/bin/cat /etc/passwd | /bin/grep root";
    let Some(sandbox) = Sandbox::start(engine) else { return Vec::new() };
    let mut times: [Vec<f64>; 6] = Default::default();
    for _ in 0..samples {
        let commands = [
            (sandbox.exec(&["true"]), ""),
            (sandbox.engine_exec(&["true"]), ""),
            (sandbox.exec(&["bash", "-lc", PIPELINE]), "root:"),
            (sandbox.engine_exec(&["bash", "-lc", BARE_PIPELINE]), "root:"),
        ];
        for (times, (command, output)) in times.iter_mut().zip(commands) {
            times.push(time_of(command, output));
        }
    }
    for _ in 0..samples.min(10) {
        times[4].push(sandbox.time_of_call("cat"));
        times[5].push(sandbox.time_of_call("/bin/cat"));
    }
    let [exec, engine_exec, pipeline, engine_pipeline, shim, bare] = times.map(median);
    let is_podman = engine == "podman";
    let label = |podman, docker| if is_podman { podman } else { docker };
    vec![
        Row {
            label: label("`box exec` of `true` / `podman exec`", "`box exec` of `true` / `docker exec`"),
            threshold: Threshold::AtMost(0.1),
            measured: Some(exec / engine_exec),
            unit: "x",
            detail: format!("{exec:.2} ms, {engine_exec:.1} ms"),
        },
        Row {
            label: label(
                "a pipeline with shims / `podman exec` without",
                "a pipeline with shims / `docker exec` without",
            ),
            threshold: Threshold::AtMost(0.4),
            measured: Some(pipeline / engine_pipeline),
            unit: "x",
            detail: format!("{pipeline:.2} ms, {engine_pipeline:.1} ms"),
        },
        Row {
            label: label("cost of a shim of `cat` (podman)", "cost of a shim of `cat` (docker)"),
            threshold: Threshold::AtMost(1.5),
            measured: Some(shim - bare),
            unit: " ms",
            detail: format!("{shim:.2} ms with it, {bare:.2} ms without, {CALLS} calls in a loop"),
        },
    ]
}
