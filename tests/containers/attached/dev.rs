//! Dev containers, which the official program brings up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, Codebox};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{fails, remove, report};
use crate::engine::Engine;
use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("attached::dev::runs_programs", runs_programs),
        row("attached::dev::runs_as_the_remote_user", runs_as_the_remote_user)
            .except(Engine::Podman, "devcontainer needs --userns=keep-id, which root does not have"),
        row("attached::dev::powers_are_refused", powers_are_refused),
        row("attached::dev::stronger_containers_are_refused", stronger_containers_are_refused),
        row("attached::dev::descriptions", descriptions),
        row("attached::dev::preferred_and_required", preferred_and_required),
        row("attached::dev::secrets_stay_here", secrets_stay_here),
        row("attached::dev::cancelled", cancelled),
        row("attached::dev::at_once", at_once),
    ]
}

/// Directory of the official program, which `tests/engines/up` installs.
fn program_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/engines/devcontainer/node_modules/.bin")
}

/// A project with a dev container, which is removed on drop.
struct Project<'t> {
    test_env: &'t TestEnvironment,
    dir: TempDir,
}

impl<'t> Project<'t> {
    fn new(test_env: &'t TestEnvironment, description: &Value) -> Result<Self> {
        let project = Self { test_env, dir: test_env.kit.folder()? };
        project.describe(".devcontainer/devcontainer.json", description)?;
        Ok(project)
    }

    fn path(&self) -> Result<PathBuf> {
        Ok(self.dir.path().canonicalize()?)
    }

    /// Writes a description.
    fn describe(&self, path: &str, description: &Value) -> Result<()> {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(fs::write(path, format!("// A comment, as people write them.\n{description:#}"))?)
    }

    /// Returns a `codebox run --json` command in the project's directory.
    fn codebox(&self) -> Codebox {
        self.codebox_of("run").args(["--json", "--engine", self.test_env.engine.name()])
    }

    /// Returns a command of codebox in the project's directory.
    fn codebox_of(&self, command: &str) -> Codebox {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", program_dir().display());
        let codebox = self.test_env.codebox().folder(self.dir.path()).env("PATH", path).env("HOME", "/root");
        codebox.arg(command)
    }

    fn job(&self) -> Codebox {
        self.codebox().args(["--isolation", "devcontainer"])
    }

    fn containers(&self) -> Result<Vec<String>> {
        let label = format!("devcontainer.local_folder={}", self.path()?.display());
        self.test_env.engine.containers(&label)
    }
}

impl Drop for Project<'_> {
    fn drop(&mut self) {
        for id in self.containers().unwrap_or_default() {
            remove(self.test_env.engine, &id);
        }
    }
}

fn runs_programs(test_env: &TestEnvironment) -> Result<()> {
    let project = Project::new(
        test_env,
        &json!({
            "image": BASE_IMAGE,
            "containerEnv": { "OF_CONTAINER": "1" },
            "remoteEnv": { "OF_REMOTE": "${containerEnv:OF_CONTAINER}2", "UNSET": null },
            "postCreateCommand": "echo made > /tmp/post-create",
        }),
    )?;
    fs::create_dir(project.dir.path().join("src"))?;
    let text = "import os, sys\nprint(os.getcwd(), __file__, os.environ['OF_CONTAINER'], os.environ['OF_REMOTE'], open('/tmp/post-create').read().strip())";
    fs::write(project.dir.path().join("src/main.py"), text)?;
    // The directories of the tests are closed to other users.
    let name = project.path()?.file_name().context("a name")?.to_string_lossy().into_owned();
    std::fs::set_permissions(project.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let first = report(project.job().arg("src/main.py"))?;
    let expected = format!("/workspaces/{name} /workspaces/{name}/src/main.py 1 12 made\n");
    ensure!(first.stdout() == expected, "{}", first.json());
    ensure!(first.at("/provenance/image") == BASE_IMAGE, "{}", first.json());
    ensure!(first.at("/provenance/reason").as_str().is_some_and(|reason| reason.contains("the dev container of")));
    // The second job finds the container that the first one has started.
    let second = report(project.job().args(["--env", "OF_REMOTE=mine", "--", "sh", "-c", "echo $OF_REMOTE; pwd"]))?;
    ensure!(second.stdout() == format!("mine\n/workspaces/{name}\n"), "{}", second.json());
    let id = |report: &codebox_testkit::Report| report.at("/provenance/container_id").clone();
    ensure!(id(&first) == id(&second) && project.containers()?.len() == 1);
    let files =
        test_env.engine.run_cli(&["exec", "-u", "0", id(&first).as_str().context("an id")?, "ls", "-A", "/"])?;
    ensure!(!files.contains(".codebox"), "{files}");
    Ok(())
}

/// Jobs that start at once use one container.
fn at_once(test_env: &TestEnvironment) -> Result<()> {
    let project = Project::new(test_env, &json!({ "image": BASE_IMAGE }))?;
    let run = || report(project.job().args(["-c", "print(1)"]));
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("it does not panic").map(drop))
    })?;
    let containers = project.containers()?;
    ensure!(containers.len() == 1, "{containers:?}");
    Ok(())
}

/// A signal to codebox alone ends the program that brings the container up, and the programs that it has started.
fn cancelled(test_env: &TestEnvironment) -> Result<()> {
    let project = Project::new(test_env, &json!({ "image": BASE_IMAGE, "postCreateCommand": "exec sleep 601" }))?;
    let mut command = project.job().args(["-c", "print(1)"]).command();
    let mut running = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let path = project.path()?.display().to_string();
    // The program leaves the client that has started the container to its end.
    let is_sought = |words: &[String]| {
        let is_client = words[0].ends_with(test_env.engine.name());
        let has = |text: &str| words.iter().any(|word| word.contains(text));
        if is_client { words.get(1).is_some_and(|word| word == "exec") && has("sleep 601") } else { has(&path) }
    };
    let programs = || -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let words = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<String> = words.split('\0').map(str::to_owned).collect();
            if is_sought(&words) {
                found.push(words.join(" "));
            }
        }
        Ok(found)
    };
    // The client of the engine waits for the command in the container.
    wait_until_empty(|| {
        let is_waiting = programs()?.iter().any(|program| program.contains("sleep 601"));
        Ok(if is_waiting { Vec::new() } else { vec!["the container is not up".to_owned()] })
    })?;
    let pid = i32::try_from(running.id()).ok().and_then(rustix::process::Pid::from_raw).context("a process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let status = running.wait()?;
    ensure!(!status.success());
    wait_until_empty(programs).with_context(|| format!("codebox has ended with {status}"))
}

fn runs_as_the_remote_user(test_env: &TestEnvironment) -> Result<()> {
    let description = json!({ "image": BASE_IMAGE, "remoteUser": "nobody", "updateRemoteUserUID": false });
    let project = Project::new(test_env, &description)?;
    let ran = report(project.job().args(["--", "sh", "-c", "id -un; grep NoNewPrivs /proc/self/status"]))?;
    ensure!(ran.stdout() == "nobody\nNoNewPrivs:\t1\n", "{}", ran.json());
    Ok(())
}

/// A description with powers that are not allowed starts nothing: neither its commands nor its container.
fn powers_are_refused(test_env: &TestEnvironment) -> Result<()> {
    let outside = test_env.kit.folder()?;
    let marker = outside.path().join("ran");
    let touch = format!("touch {}", marker.display());
    let mount = format!("type=bind,source={},target=/outside", outside.path().display());
    // The official program refuses a Dockerfile that does not exist, before codebox can.
    fs::write(outside.path().join("Dockerfile"), format!("FROM {BASE_IMAGE}"))?;
    let settings = [
        (json!({ "initializeCommand": touch }), "host-commands"),
        (json!({ "privileged": true }), "privileged"),
        (json!({ "mounts": [mount] }), "mounts"),
        (json!({ "mounts": ["type=bind,source=/var/run/docker.sock,target=/var/run/docker.sock"] }), "sockets"),
        (json!({ "runArgs": ["--network=host"] }), "engine-arguments"),
        (json!({ "build": { "dockerfile": "../link/Dockerfile" } }), "mounts"),
        // Engines read keys without regard to case, and quotation marks; the official program joins the fields of objects.
        (
            json!({ "mounts": [format!("type=tmpfs,TYPE=bind,SOURCE={},target=/h", outside.path().display())] }),
            "mounts",
        ),
        (
            json!({ "mounts": [format!("type=tmpfs,target=/h,\"type=bind\",\"source={}\"", outside.path().display())] }),
            "mounts",
        ),
        (
            json!({ "mounts": [{ "type": "tmpfs", "target": format!("/h,type=bind,source={}", outside.path().display()) }] }),
            "mounts",
        ),
        (json!({ "mounts": ["type=bind,source=${localWorkspaceFolder}/link,target=/h"] }), "mounts"),
        (json!({ "hostRequirements": { "gpu": {} } }), "devices"),
        (json!({ "build": { "dockerfile": "Dockerfile", "context": "../link" } }), "mounts"),
        (json!({ "runArgs": ["-v", "/:/machine"] }), "engine-arguments"),
        (json!({ "capAdd": ["SYS_ADMIN"] }), "capabilities"),
        (json!({ "workspaceMount": mount, "workspaceFolder": "/outside" }), "mounts"),
        (json!({ "build": { "dockerfile": "Dockerfile", "context": "../.." } }), "mounts"),
    ];
    for (setting, power) in settings {
        let mut description = json!({ "image": BASE_IMAGE });
        let fields = setting.as_object().context("an object")?.clone();
        description.as_object_mut().context("an object")?.extend(fields);
        let project = Project::new(test_env, &description)?;
        fs::write(project.dir.path().join(".devcontainer/Dockerfile"), format!("FROM {BASE_IMAGE}"))?;
        std::os::unix::fs::symlink(outside.path(), project.dir.path().join("link"))?;
        let setting = &description;
        fails(project.job().args(["-c", "1"]), "denied", power)?;
        ensure!(project.containers()?.is_empty() && !marker.exists(), "{setting}: something was started");
    }
    let description = json!({ "image": BASE_IMAGE, "initializeCommand": touch, "mounts": [mount] });
    let project = Project::new(test_env, &description)?;
    let job = project.job().args(["--allow-power", "host-commands", "--allow-power", "mounts"]);
    let allowed = report(job.args(["--", "ls", "/outside"]))?;
    ensure!(allowed.stdout() == "Dockerfile\nran\n", "{}", allowed.json());
    Ok(())
}

/// A container that exists already can have more power than the description has by now.
fn stronger_containers_are_refused(test_env: &TestEnvironment) -> Result<()> {
    let project = Project::new(test_env, &json!({ "image": BASE_IMAGE, "capAdd": ["SYS_PTRACE"] }))?;
    let allowed = report(project.job().args(["--allow-power", "capabilities", "-c", "print(1)"]))?;
    ensure!(allowed.stdout() == "1\n", "{}", allowed.json());
    project.describe(".devcontainer/devcontainer.json", &json!({ "image": BASE_IMAGE }))?;
    fails(project.job().args(["-c", "1"]), "denied", "SYS_PTRACE")
}

fn descriptions(test_env: &TestEnvironment) -> Result<()> {
    let plain = json!({ "image": BASE_IMAGE });
    let project = Project::new(test_env, &plain)?;
    fs::remove_file(project.dir.path().join(".devcontainer/devcontainer.json"))?;
    fails(project.job().args(["-c", "1"]), "invalid_request", "has no dev container")?;
    project.describe(".devcontainer/a/devcontainer.json", &plain)?;
    project
        .describe(".devcontainer/b/devcontainer.json", &json!({ "image": BASE_IMAGE, "remoteEnv": { "NAME": "b" } }))?;
    fails(project.job().args(["-c", "1"]), "invalid_request", "several dev containers")?;
    let named = report(project.job().args(["--dev-config", "b", "--", "sh", "-c", "echo $NAME"]))?;
    ensure!(named.stdout() == "b\n", "{}", named.json());
    fails(project.codebox().args(["--dev-config", "b", "-c", "1"]), "invalid_request", "--dev-config")?;
    // Its image is built; the list of allowed images is for images that are named.
    fs::write(project.dir.path().join(".devcontainer/Dockerfile"), format!("FROM {BASE_IMAGE}\nENV BUILT=1\n"))?;
    project.describe(".devcontainer.json", &json!({ "build": { "dockerfile": ".devcontainer/Dockerfile" } }))?;
    fs::write(test_env.home().join("config/config.toml"), "[images]\nallowed = [\"docker.io/library/*\"]\n")?;
    fails(project.job().args(["-c", "1"]), "denied", "builds its image")?;
    fails(project.job().args(["--dev-config", "b", "-c", "1"]), "denied", "does not allow it")?;
    // The reason of the official program is passed on.
    fs::remove_file(test_env.home().join("config/config.toml"))?;
    project.describe(".devcontainer.json", &json!({ "build": { "dockerfile": ".devcontainer/Missing" } }))?;
    fails(project.job().args(["-c", "1"]), "engine_unavailable", "no such file or directory")?;
    project.describe(".devcontainer.json", &json!({ "image": BASE_IMAGE, "workspaceFolder": "/missing" }))?;
    let missing = project.job().args(["--", "ls"]).run()?.report()?.json().clone();
    let message = missing["error"]["value"].as_str().unwrap_or_default();
    ensure!(message.contains("its working directory /missing is missing"), "{missing}");
    fs::write(test_env.home().join("config/config.toml"), "")?;
    // Without the program the message says how to get it.
    fs::remove_file(test_env.home().join("config/config.toml"))?;
    fails(project.job().env("PATH", "/usr/bin:/bin").args(["-c", "1"]), "engine_unavailable", "is not installed")
}

/// The user's configuration can make a project's dev container the preferred or the only place of its jobs.
fn preferred_and_required(test_env: &TestEnvironment) -> Result<()> {
    let project = Project::new(test_env, &json!({ "image": BASE_IMAGE, "remoteEnv": { "IN_DEV": "1" } }))?;
    let config = test_env.home().join("config/config.toml");
    let show = ["--", "sh", "-c", "echo in:$IN_DEV"];
    let stdout = |job: Codebox| -> Result<String> { Ok(report(job)?.stdout().to_owned()) };
    let base = || project.codebox().args(["--image", BASE_IMAGE]);
    ensure!(stdout(base().args(show))? == "in:\n", "it is not used by itself");
    fs::write(&config, "[containers]\ndev-container = \"prefer\"\n")?;
    ensure!(stdout(project.codebox().args(show))? == "in:1\n");
    let python = ["-c", "import os; print(os.environ.get('IN_DEV'))"];
    ensure!(stdout(project.codebox().args(["--isolation", "container"]).args(python))? == "1\n");
    ensure!(stdout(project.codebox().args(["--isolation", "wasm"]).args(python))? == "None\n");
    // A job that the dev container cannot run has one of its own.
    ensure!(stdout(base().args(show))? == "in:\n");
    fs::write(&config, "[containers]\ndev-container = \"require\"\n")?;
    ensure!(stdout(project.codebox().args(python))? == "1\n");
    fails(project.codebox().args(["--isolation", "wasm"]).args(python), "denied", "requires the dev container")?;
    fails(base().args(show), "invalid_request", "--image")?;
    let explained = project.codebox_of("explain").args(["--json", "-c", "1"]).run()?;
    let explained: Value = serde_json::from_slice(&explained.stdout)?;
    let levels = explained["settings"].as_array().context("a list")?;
    let dev = levels.iter().find(|setting| setting["level"] == "dev-container").context("a level")?;
    ensure!(dev["requires"] == "devcontainer", "{dev}");
    Ok(())
}

/// A description can pass variables of this machine to its container. It gets those that the engine's program needs.
fn secrets_stay_here(test_env: &TestEnvironment) -> Result<()> {
    let env =
        json!({ "TAKEN": "${localEnv:MY_SECRET}", "OTHER": "${env:MY_SECRET}", "HOME_OF_HOST": "${localEnv:HOME}" });
    let project = Project::new(test_env, &json!({ "image": BASE_IMAGE, "remoteEnv": env, "containerEnv": env }))?;
    let job = project.job().env("MY_SECRET", "hidden-value").args(["--", "env"]);
    let shown = report(job)?;
    ensure!(shown.stdout().contains("HOME_OF_HOST=/root"), "{}", shown.json());
    ensure!(!shown.json().to_string().contains("hidden-value"), "{}", shown.json());
    Ok(())
}
