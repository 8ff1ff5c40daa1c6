//! Jobs in running containers that the tests have made with the engine's own program.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, Codebox, Input, Report};
use tempfile::TempDir;

use crate::engine::Engine;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

mod dev;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("attached::runs_programs", runs_programs),
        row("attached::paths_are_mapped", paths_are_mapped),
        row("attached::runs_as_the_user", runs_as_the_user),
        row("attached::ends_its_processes", ends_its_processes),
        row("attached::limits", limits),
        row("attached::powers_are_refused", powers_are_refused),
        row("attached::refused_requests", refused_requests),
        row("attached::without_the_agent", without_the_agent),
        row("attached::killed_host", killed_host),
        row("attached::killed_container", killed_container),
        row("attached::C5::working_directory", working_directory),
        row("attached::C20::attacks_on_the_agent", attacks_on_the_agent),
    ];
    rows.extend(dev::rows());
    rows
}

/// A running container with a directory of this machine, removed on drop.
pub struct Container<'t> {
    test_env: &'t TestEnvironment,
    pub id: String,
    /// Mounted at `/mounted`.
    pub dir: TempDir,
}

impl<'t> Container<'t> {
    pub fn start(test_env: &'t TestEnvironment, options: &[&str]) -> Result<Self> {
        let dir = test_env.kit.folder()?;
        // Programs of other users work in it.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        let mount = format!("{}:/mounted", dir.path().display());
        let start = ["run", "-d", "-v", &mount, "-w", "/mounted"];
        let words = [&start[..], options, &[BASE_IMAGE, "sleep", "600"]].concat();
        let id = test_env.engine.run_cli(&words)?.trim().to_owned();
        Ok(Self { test_env, id, dir })
    }

    /// Returns a `codebox run --json` command in the container.
    pub fn job(&self) -> Codebox {
        let engine = self.test_env.engine.name();
        self.test_env.codebox().args(["run", "--json", "--engine", engine, "--container", &self.id])
    }

    /// Runs a job that succeeds.
    pub fn run(&self, args: &[&str]) -> Result<Report> {
        let report = report(self.job().args(args.iter().copied()))?;
        ensure!(report.exit_code() == Some(0), "{args:?}: {}", report.json());
        Ok(report)
    }

    /// Waits for a file that a program makes in the mounted directory.
    fn wait_for(&self, name: &str) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(30);
        let file = self.dir.path().join(name);
        while !file.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(file.exists(), "{name} was not made");
        Ok(())
    }

    /// Runs a command by the engine's own program.
    pub fn engine_exec(&self, words: &[&str]) -> Result<String> {
        self.test_env.engine.run_cli(&[&["exec", "-u", "0", &self.id], words].concat())
    }

    /// Checks that no file and no process of codebox is left.
    pub fn check_clean(&self) -> Result<()> {
        let left = || -> Result<String> {
            let files = self.engine_exec(&["sh", "-c", "ls -A / /tmp | grep codebox || true"])?;
            let processes = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done | grep -e codebox -e 'sleep 77' | grep -v grep || true";
            Ok(files + &self.engine_exec(&["sh", "-c", processes])?)
        };
        let until = Instant::now() + Duration::from_secs(10);
        while !left()?.trim().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let left = left()?;
        ensure!(left.trim().is_empty(), "left in the container: {left}");
        let state = self.test_env.engine.inspect(&self.id)?["State"]["Running"].clone();
        ensure!(state == true, "the container has ended");
        Ok(())
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        remove(self.test_env.engine, &self.id);
    }
}

pub fn remove(engine: Engine, id: &str) {
    // Podman first sends SIGTERM, which the first process of a container ignores, and waits.
    let options: &[&str] = if engine == Engine::Podman { &["--time", "0"] } else { &[] };
    let _ = engine.run_cli(&[&["rm", "-f", "-v"], options, &[id]].concat());
}

pub fn report(job: Codebox) -> Result<Report> {
    let result = job.run()?;
    ensure!(!result.timed_out && result.signal.is_none(), "{:?} {}", result.signal, result.stderr_text());
    result.report().with_context(|| result.stderr_text())
}

pub fn fails(job: Codebox, kind: &str, text: &str) -> Result<()> {
    let report = report(job)?;
    let message = report.at("/error/message").as_str().unwrap_or_default().to_owned();
    ensure!(report.kind() == kind && message.contains(text), "expected {kind} {text:?}: {}", report.json());
    Ok(())
}

fn script(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn runs_programs(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &["-e", "OF_CONTAINER=1"])?;
    let report =
        container.run(&["-c", "import os; print(os.getcwd(), os.environ['OF_CONTAINER'], 'TOKEN' in os.environ)"])?;
    ensure!(report.stdout() == "/mounted 1 False\n", "{}", report.stdout());
    ensure!(report.at("/provenance/container_id") == container.id.as_str(), "{}", report.json());
    ensure!(report.at("/provenance/isolation") == "container");
    ensure!(report.at("/provenance/directory") == "/mounted", "{}", report.json());
    let layers = report.at("/enforcement/walls").to_string();
    ensure!(layers.contains("which codebox has not made") && layers.contains("/mounted"), "{layers}");
    ensure!(report.at("/provenance/reason").as_str().is_some_and(|reason| reason.contains("container ")));
    // Streams, arguments and statuses.
    let echo = "import sys; data = sys.stdin.buffer.read(); sys.stdout.write(str(len(data)) + ' ' + repr(sys.argv[1:])); sys.stderr.write('err'); sys.exit(3)";
    let ended = self::report(
        container.job().args(["--env", "A=b", "-c", echo, "x y", "é"]).input(Input::Bytes(vec![7; 300_000])),
    )?;
    ensure!(ended.stdout() == "300000 ['x y', 'é']" && ended.stderr() == "err", "{}", ended.json());
    ensure!(ended.exit_code() == Some(3));
    // Programs of all kinds: a command, standard input, a file that the container does not have, and languages with types.
    let command = container.run(&["--", "sh", "-c", "echo $A $0"])?;
    ensure!(command.stdout() == "sh\n", "{}", command.stdout());
    let text =
        self::report(container.job().args(["--lang", "python", "-"]).input(Input::Bytes(b"print(6 * 7)".to_vec())))?;
    ensure!(text.stdout() == "42\n", "{}", text.json());
    let folder = test_env.kit.folder()?;
    let own = script(folder.path(), "own.py", "import sys; print(open(__file__).read().count('x'), sys.argv)")?;
    let file = container.run(&[&own.display().to_string(), "a"])?;
    ensure!(file.stdout().ends_with("own.py', 'a']\n"), "{}", file.stdout());
    let types = script(folder.path(), "types.ts", "const a: number = 2; console.log(a + 1)")?;
    let typed = container.run(&[&types.display().to_string()])?;
    ensure!(typed.stdout() == "3\n", "{}", typed.json());
    script(container.dir.path(), "part.ts", "export const part: string = 'part'")?;
    let main = script(container.dir.path(), "main.ts", "import { part } from './part.ts'\nconsole.log(part)")?;
    let module = container.run(&[&main.display().to_string()])?;
    ensure!(module.stdout() == "part\n", "{}", module.json());
    let missing = self::report(container.job().args(["--", "no-such-program"]))?;
    ensure!(missing.exit_code() == Some(127), "{}", missing.json());
    container.check_clean()
}

/// A file below a mounted directory is the same file in the container.
fn paths_are_mapped(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &[])?;
    fs::create_dir(container.dir.path().join("sub"))?;
    let text = "import sys\nprint(__file__)\nopen('/mounted/sub/out', 'w').write('made')\n1 / 0";
    let path = script(&container.dir.path().join("sub"), "a.py", text)?;
    let report = report(container.job().arg(path.display().to_string()))?;
    ensure!(report.stdout() == "/mounted/sub/a.py\n", "{}", report.json());
    ensure!(report.exit_code() == Some(1) && report.stderr().contains("/mounted/sub/a.py"));
    ensure!(report.at("/error/name") == "ZeroDivisionError", "{}", report.json());
    ensure!(fs::read_to_string(container.dir.path().join("sub/out"))? == "made");
    // A file that another mount hides in the container is not the same file there.
    let hidden = Container::start(test_env, &["--tmpfs", "/mounted/sub"])?;
    fs::create_dir_all(hidden.dir.path().join("sub"))?;
    let path = script(&hidden.dir.path().join("sub"), "b.py", "print('of the host')")?;
    hidden.engine_exec(&["sh", "-c", "echo 'print(\"of the container\")' > /mounted/sub/b.py"])?;
    ensure!(self::report(hidden.job().arg(path.display().to_string()))?.stdout() == "of the host\n");
    container.check_clean()
}

fn runs_as_the_user(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &["--user", "1234:2345"])?;
    let look = "import os; print(os.getuid(), os.getgid(), os.geteuid(), open('/proc/self/status').read())";
    let report = container.run(&["-c", look])?;
    ensure!(report.stdout().starts_with("1234 2345 1234 "), "{}", report.stdout());
    for line in ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        ensure!(report.stdout().contains(line), "{line}: {}", report.stdout());
    }
    let file = container.run(&["-c", "open('/mounted/own', 'w')"])?;
    ensure!(file.exit_code() == Some(0));
    ensure!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(container.dir.path().join("own"))?) == 1234);
    container.check_clean()
}

/// Processes that the program leaves behind end with the job, in whatever session they are; those of the container go on.
fn ends_its_processes(test_env: &TestEnvironment) -> Result<()> {
    for user in [&[][..], &["--user", "1234:2345"]] {
        let container = Container::start(test_env, user)?;
        let before = container.engine_exec(&["sh", "-c", "sleep 501 & echo $!"])?;
        let leave = "import subprocess, os\nfor n in range(3): subprocess.Popen(['sleep', '77'], start_new_session=n > 0)\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execvp('sleep', ['sleep', '77'])\n os._exit(0)";
        container.run(&["-c", leave])?;
        container.check_clean()?;
        ensure!(
            container.engine_exec(&["sh", "-c", &format!("kill -0 {} && echo runs", before.trim())])?.trim() == "runs"
        );
    }
    Ok(())
}

fn limits(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &[])?;
    let slow = report(container.job().args(["--timeout", "1s", "--", "sh", "-c", "echo begun; sleep 77 & sleep 77"]))?;
    ensure!(slow.outcome() == "limit wall" && slow.stdout() == "begun\n", "{}", slow.json());
    let flood = report(container.job().args(["--max-output", "10K", "--", "yes"]))?;
    ensure!(flood.outcome() == "limit output", "{}", flood.json());
    container.check_clean()?;
    for (option, value) in [("--memory", "100M"), ("--max-processes", "10"), ("--cpu-time", "1s"), ("--max-disk", "1M")]
    {
        fails(container.job().args([option, value, "-c", "1"]), "invalid_request", "cannot enforce")?;
    }
    let ceilings = "[ceilings]\nmemory = \"1GiB\"\n";
    fs::write(test_env.home().join("config/config.toml"), ceilings)?;
    fails(container.job().args(["-c", "1"]), "denied", "the configuration limits memory")
}

fn powers_are_refused(test_env: &TestEnvironment) -> Result<()> {
    let unhidden = match test_env.engine {
        Engine::Podman => "unmask=ALL",
        Engine::Docker => "systempaths=unconfined",
    };
    for (options, power, text) in [
        (&["--ipc", "host"][..], "host-namespaces", "the IPC namespace of this machine"),
        (&["--uts", "host"], "host-namespaces", "the host name namespace of this machine"),
        (&["--security-opt", unhidden], "security-options", "system paths of the kernel are not hidden"),
        (&["--cap-add", "SYS_PTRACE"], "capabilities", "SYS_PTRACE"),
        (&["--pid", "host"], "host-namespaces", "process namespace"),
        (&["--network", "host"], "host-namespaces", "network namespace"),
        (&["--security-opt", "seccomp=unconfined"], "security-options", "seccomp=unconfined"),
        (&["-v", "/run:/machine"], "sockets", "by which programs control the engine"),
    ] {
        let container = Container::start(test_env, options)?;
        fails(container.job().args(["-c", "1"]), "denied", power)?;
        fails(container.job().args(["-c", "1"]), "denied", text)?;
        fails(container.job().args(["--allow-power", "ports,devices", "-c", "1"]), "denied", power)?;
        let powers = format!("{power},security-options,devices,capabilities");
        let allowed = report(container.job().args(["--allow-power", &powers, "-c", "print(1)"]))?;
        ensure!(allowed.stdout() == "1\n", "{}", allowed.json());
        let layers = allowed.at("/enforcement/walls").to_string();
        ensure!(layers.contains(&format!("\"{power}\"")) && layers.contains(text), "{layers}");
    }
    let exported = test_env.codebox().args(["audit", "export", "--json"]).run()?.stdout_text();
    let has_record =
        |line: &str| line.contains("\"origin\":\"container ") && line.contains("by which programs control the engine");
    ensure!(exported.lines().any(has_record), "{exported}");
    let is_refusal = |line: &str| line.contains("\"type\":\"refused\"") && line.contains("powers over this machine");
    ensure!(exported.lines().any(is_refusal), "{exported}");
    let config = test_env.home().join("config/config.toml");
    fs::write(&config, "[containers]\npowers = [\"capabilities\"]\n")?;
    let container = Container::start(test_env, &["--cap-add", "SYS_PTRACE"])?;
    container.run(&["-c", "1"])?;
    // A project cannot allow anything.
    let project = test_env.kit.folder()?;
    fs::write(project.path().join("codebox.toml"), "[containers]\npowers = [\"sockets\"]\n")?;
    fails(container.job().folder(project.path()).args(["-c", "1"]), "invalid_request", "a project cannot give")
}

fn refused_requests(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &[])?;
    let dir = container.dir.path().display().to_string();
    for option in [
        &["--dir", &format!("{dir}:/data")][..],
        &["--net", "example.com"],
        &["--out", &format!("{dir}/out")],
        &["--with", "rich"],
        &["--image", "debian:stable"],
        &["--warm", "1"],
    ] {
        fails(container.job().args(option.iter().copied()).args(["-c", "1"]), "invalid_request", option[0])?;
    }
    fails(container.job().args(["--isolation", "wasm", "-c", "1"]), "invalid_request", "the isolation is wasm")?;
    let engine = test_env.engine.name();
    let named =
        |name: &str| test_env.codebox().args(["run", "--json", "--engine", engine, "--container", name, "-c", "1"]);
    for name in ["no-such-container", "../images", "a/b", "x?y", ""] {
        fails(named(name), "invalid_request", "cannot use container")?;
    }
    let sandbox = crate::boxes::Sandbox::start(test_env, &[])?;
    fails(named(&sandbox.name), "invalid_request", "it is a box")?;
    test_env.engine.run_cli(&["pause", &container.id])?;
    fails(container.job().args(["-c", "1"]), "invalid_request", "it is not running")?;
    test_env.engine.run_cli(&["unpause", &container.id])?;
    test_env.engine.run_cli(&["kill", &container.id])?;
    fails(container.job().args(["-c", "1"]), "invalid_request", "it is not running")
}

/// The report says that the container has ended, and has the output up to then.
fn killed_container(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &[])?;
    let text = "import time; print('early', flush=True); open('/mounted/started', 'w').close(); time.sleep(600)";
    let mut command = container.job().args(["-c", text]).command();
    let job = command.stdout(std::process::Stdio::piped()).spawn()?;
    container.wait_for("started")?;
    test_env.engine.run_cli(&["kill", &container.id])?;
    let output = job.wait_with_output()?;
    let report = Report::new(serde_json::from_slice(&output.stdout)?);
    ensure!(report.exit_code() == Some(137) && report.stdout() == "early\n", "{}", report.json());
    let reason = report.at("/provenance/reason").as_str().unwrap_or_default();
    ensure!(reason.ends_with(", which ended before the job"), "{reason}");
    Ok(())
}

/// A container whose root directory is read-only has no place for the agent.
fn without_the_agent(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &["--read-only"])?;
    let report = container.run(&["-c", "import os, sys; print(os.getcwd(), sys.stdin.read())"])?;
    ensure!(report.stdout() == "/mounted \n", "{}", report.stdout());
    let reason = report.at("/provenance/reason").as_str().unwrap_or_default();
    let has_agent = !reason.contains("where the engine starts it");
    ensure!(!has_agent, "{reason}");
    let path = script(container.dir.path(), "a.py", "import sys; print(__file__); sys.exit(5)")?;
    let file = self::report(container.job().arg(path.display().to_string()))?;
    ensure!(file.stdout() == "/mounted/a.py\n" && file.exit_code() == Some(5), "{}", file.json());
    let echo = container.job().args(["--", "wc", "-c"]).input(Input::Bytes(vec![1; 500_000]));
    ensure!(self::report(echo)?.stdout().trim() == "500000");
    let slow =
        self::report(container.job().args(["--timeout", "1s", "--", "sh", "-c", "echo begun; sleep 77 & sleep 77"]))?;
    ensure!(slow.outcome() == "limit wall" && slow.stdout() == "begun\n", "{}", slow.json());
    let flood = self::report(container.job().args(["--max-output", "10K", "--", "yes"]))?;
    ensure!(flood.outcome() == "limit output", "{}", flood.json());
    let missing = self::report(container.job().args(["--", "no-such-program"]))?;
    ensure!(missing.exit_code() == Some(127), "{}", missing.json());
    container.check_clean()
}

/// The agent ends, and removes itself, when the process of codebox is killed.
fn killed_host(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &["--user", "1234:2345"])?;
    let mut command = container.job().args(["--", "sh", "-c", "touch /mounted/begun; sleep 77"]).command();
    let mut child = command.stdout(std::process::Stdio::null()).spawn()?;
    container.wait_for("begun")?;
    child.kill()?;
    child.wait()?;
    container.check_clean()?;
    // The private directory of the killed process is left to the next one.
    ensure!(test_env.codebox().arg("gc").run()?.code == Some(0));
    Ok(())
}

/// A working directory of the container that leads to descriptors is refused.
fn working_directory(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &[])?;
    let id = test_env.engine.run_cli(&["run", "-d", "-w", "/proc/self/fd", BASE_IMAGE, "sleep", "600"])?;
    let other = Container { test_env, id: id.trim().to_owned(), dir: test_env.kit.folder()? };
    let refused = report(other.job().args(["--", "ls"]))?;
    ensure!(refused.exit_code() == Some(126) && refused.stdout().is_empty(), "{}", refused.json());
    container.engine_exec(&["ln", "-s", "/proc/self/fd", "/mounted/link"])?;
    let id = test_env.engine.run_cli(&[
        "run",
        "-d",
        "-v",
        &format!("{}:/mounted", container.dir.path().display()),
        "-w",
        "/mounted/link",
        BASE_IMAGE,
        "sleep",
        "600",
    ]);
    // An engine may refuse it itself.
    if let Ok(id) = id {
        let other = Container { test_env, id: id.trim().to_owned(), dir: test_env.kit.folder()? };
        let refused = report(other.job().args(["--", "ls"]))?;
        ensure!(refused.exit_code() == Some(126) && refused.stdout().is_empty(), "{}", refused.json());
    }
    Ok(())
}

/// A job of another user can neither end nor inspect the agent, nor answer in its place.
fn attacks_on_the_agent(test_env: &TestEnvironment) -> Result<()> {
    let container = Container::start(test_env, &["--user", "1234:2345"])?;
    let attack = r#"
import os, signal, glob
agent = os.getppid()
try:
    os.kill(agent, signal.SIGKILL)
    print('killed the agent')
except PermissionError:
    pass
for path in glob.glob(f'/proc/{agent}/fd/*') + [f'/proc/{agent}/mem', f'/proc/{agent}/environ']:
    try:
        open(path, 'rb').read(1)
        print('read', path)
    except OSError:
        pass
for path in glob.glob('/.codebox-*/*') + glob.glob('/.codebox-*'):
    try:
        os.rename(path, path + '-gone')
        print('renamed', path)
    except OSError:
        pass
try:
    os.listdir(f'/proc/{agent}/fd')
    print('listed the descriptors of the agent')
except PermissionError:
    pass
os.write(1, b'\x00\x00\x00\x05\x04{}\n')
print('alive')
"#;
    let report = container.run(&["-c", attack])?;
    ensure!(report.stdout() == "\0\0\0\u{5}\u{4}{}\nalive\n", "{}", report.stdout());
    // Root is the user of the agent, which it can kill; the report says that nothing is known then.
    let container = Container::start(test_env, &[])?;
    let kill = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(77)";
    fails(container.job().args(["-c", kill]), "engine_lost", "its agent no longer answers")?;
    let left = container.engine_exec(&["sh", "-c", "ls -d /.codebox-* 2>/dev/null || true"])?;
    ensure!(left.trim().is_empty(), "left in the container: {left}");
    Ok(())
}
