//! C3: containers as their engine created them, independent of codebox's request.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::row::{Row, row};
use crate::running_jobs::{WAITING_PROGRAM, while_running};
use crate::test_env::TestEnvironment;

/// Limits of the job, all different from any default.
const LIMITS: [&str; 8] = ["--memory", "128M", "--max-processes", "24", "--max-open-files", "128", "--max-disk", "32M"];

/// Returns the settings that have exactly one right value on both engines.
fn expected() -> Vec<(&'static str, Value)> {
    let memory = 128 << 20;
    vec![
        ("/HostConfig/Privileged", json!(false)),
        ("/HostConfig/ReadonlyRootfs", json!(true)),
        ("/HostConfig/Memory", json!(memory)),
        ("/HostConfig/MemorySwap", json!(memory)),
        ("/HostConfig/NetworkMode", json!("none")),
        ("/HostConfig/LogConfig/Type", json!("none")),
        ("/HostConfig/AutoRemove", json!(false)),
        ("/HostConfig/OomKillDisable", json!(false)),
        ("/HostConfig/OomScoreAdj", json!(0)),
        ("/HostConfig/CgroupParent", json!("")),
        ("/HostConfig/SecurityOpt/0", json!("no-new-privileges")),
        ("/Config/Tty", json!(false)),
        ("/Config/WorkingDir", json!("/")),
        ("/Config/Healthcheck/Test", json!(["NONE"])),
        ("/Path", json!("/.codebox/agent")),
    ]
}

/// Lists that must be empty or absent.
const EMPTY: [&str; 12] = [
    "/HostConfig/CapAdd",
    "/HostConfig/Devices",
    "/HostConfig/DeviceRequests",
    "/HostConfig/DeviceCgroupRules",
    "/HostConfig/GroupAdd",
    "/HostConfig/PortBindings",
    "/HostConfig/VolumesFrom",
    "/HostConfig/ExtraHosts",
    "/HostConfig/Dns",
    "/HostConfig/Links",
    "/EffectiveCaps",
    "/BoundingCaps",
];

pub fn rows() -> Vec<Row> {
    vec![
        row("C3::container_settings", container_settings),
        row("C3::processors", processors),
        row("C13::hostile_image_settings", hostile_image_settings),
        row("C3::own_directories", own_directories),
    ]
}

fn container_settings(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(LIMITS).args(["--lang", "python", "-c", WAITING_PROGRAM]);
    let (result, found) = while_running(test_env, job, |id| test_env.engine.inspect(id))?;
    let report = test_env.check_run(&result)?;
    ensure!(report.stdout() == "done\n", "unexpected result: {}", report.json());
    check(test_env.engine, &found, &["/data", "/tmp", "/work"])
}

/// Program that keeps two processes busy for a second, and prints their processor time in relation to the time that has passed.
const BUSY_PROGRAM: &str = "import os, time\nbegan = time.monotonic()\nchild = os.fork()\nwhile time.monotonic() < began + 1: pass\n\
    if child == 0: os._exit(0)\nos.wait()\nused = os.times()\nprint((used.user + used.system + used.children_user + used.children_system) / (time.monotonic() - began))";

fn processors(test_env: &TestEnvironment) -> Result<()> {
    let run =
        |options: &[&str], code: &str| test_env.run_granted().args(options).args(["--lang", "python", "-c", code]);
    let (result, found) =
        while_running(test_env, run(&["--cpus", "0.5"], WAITING_PROGRAM), |id| test_env.engine.inspect(id))?;
    test_env.check_run(&result)?;
    ensure!(found.pointer("/HostConfig/NanoCpus") == Some(&json!(500_000_000)), "{found}");
    let report = test_env.check_run(&run(&["--cpus", "0.25"], BUSY_PROGRAM).run()?)?;
    let ratio: f64 = report.stdout().trim().parse()?;
    // The group may use its share of a period of 100 ms at once, at the start and at the end.
    ensure!(ratio <= 0.5, "0.25 processors were used {ratio} times as long: {}", report.json());
    let layers = report.at("/enforcement/walls").to_string();
    ensure!(layers.contains("at most 0.25 at one time"), "{layers}");
    // More than the machine has are all of it.
    let report = test_env.check_run(&run(&["--cpus", "64"], "print(1)").run()?)?;
    ensure!(report.stdout() == "1\n", "{}", report.json());
    Ok(())
}

/// A volume, root user, health check and entry point that an image declares have no effect.
fn hostile_image_settings(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_hostile().grant(&test_env.canaries.grant(), "/data", "rw").args(LIMITS);
    let (result, found) = while_running(test_env, job.args(["--lang", "python", "-c", WAITING_PROGRAM]), |id| {
        test_env.engine.inspect(id)
    })?;
    let report = test_env.check_run(&result)?;
    ensure!(report.stdout() == "done\n", "unexpected result: {}", report.json());
    check(test_env.engine, &found, &["/data", "/tmp", "/work"])
}

fn check(engine: Engine, found: &Value, writable: &[&str]) -> Result<()> {
    let mut wrong = Vec::new();
    let at = |pointer: &str| found.pointer(pointer).cloned().unwrap_or(Value::Null);
    for (pointer, value) in expected() {
        let is = at(pointer);
        if is != value {
            wrong.push(format!("{pointer} is {is} and not {value}"));
        }
    }
    for pointer in EMPTY {
        let is = at(pointer);
        let empty =
            is.is_null() || is.as_array().is_some_and(Vec::is_empty) || is.as_object().is_some_and(|o| o.is_empty());
        if !empty {
            wrong.push(format!("{pointer} is {is} and not empty"));
        }
    }
    // Podman reports its private message queues as shareable, and its API has no setting for control group namespaces
    // before version 5; the job sees only its own group, read-only.
    for pointer in ["PidMode", "UTSMode", "UsernsMode", "CgroupnsMode", "IpcMode"] {
        let is = at(&format!("/HostConfig/{pointer}"));
        if is.as_str().is_some_and(|mode| mode == "host" || mode.starts_with("container:")) {
            wrong.push(format!("{pointer} is {is}"));
        }
    }
    if at("/HostConfig/CapDrop").as_array().is_none_or(Vec::is_empty) {
        wrong.push("no power is taken away".to_owned());
    }
    if engine == Engine::Docker {
        // Podman lists each dropped capability by name and has separate lists for those that are kept.
        for (pointer, value) in [("CapDrop", json!(["ALL"])), ("IpcMode", json!("private"))] {
            let is = at(&format!("/HostConfig/{pointer}"));
            if is != value {
                wrong.push(format!("{pointer} is {is} and not {value}"));
            }
        }
    }
    if !at("/HostConfig/PidsLimit").as_i64().is_some_and(|limit| (24..=48).contains(&limit)) {
        wrong.push(format!("processes: {}", at("/HostConfig/PidsLimit")));
    }
    if at("/HostConfig/NanoCpus").as_i64().is_none_or(|some| some <= 0) {
        wrong.push(format!("processors: {}", at("/HostConfig/NanoCpus")));
    }
    if at("/HostConfig/SecurityOpt").to_string().contains("unconfined") {
        wrong.push(format!("security: {}", at("/HostConfig/SecurityOpt")));
    }
    let user = at("/Config/User");
    let ids: Vec<u32> = user.as_str().unwrap_or("").split(':').filter_map(|id| id.parse().ok()).collect();
    if ids.len() != 2 || ids.iter().any(|id| *id < 1000) {
        wrong.push(format!("the user is {user}"));
    }
    wrong.extend(limits(&at("/HostConfig/Ulimits")));
    // The agent sets the same limits itself, for engines that ignore them.
    let args: Vec<String> = serde_json::from_value(at("/Args")).unwrap_or_default();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if args.first().map(String::as_str) != Some("serve")
        || !["core=0", "nofile=128", "fsize=33554432"].into_iter().all(has)
    {
        wrong.push(format!("the agent's arguments are {args:?}"));
    }
    wrong.extend(mounts(&at("/Mounts"), writable));
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

fn limits(ulimits: &Value) -> Vec<String> {
    let required = [("core", 0), ("nofile", 128), ("fsize", 32 << 20)];
    let is = |ulimit: &Value, name: &str| {
        let text = ulimit["Name"].as_str().unwrap_or("").to_ascii_lowercase();
        text.trim_start_matches("rlimit_") == name
    };
    let all = ulimits.as_array().map(Vec::as_slice).unwrap_or_default();
    let wrong = required.into_iter().filter(|(name, limit)| {
        !all.iter().any(|one| is(one, name) && one["Hard"] == json!(limit) && one["Soft"] == json!(limit))
    });
    wrong.map(|(name, limit)| format!("{name} is not {limit}: {ulimits}")).collect()
}

/// The job's own directories are mounted without submounts and, as far as the engine supports it, without set-user-id
/// programs and devices.
fn own_directories(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("print(open('/proc/self/mountinfo').read(), flush=True)\n{WAITING_PROGRAM}");
    let job = test_env.run_granted().args(["--lang", "python", "-c", &code]);
    let (result, found) = while_running(test_env, job, |id| test_env.engine.inspect(id))?;
    let report = test_env.check_run(&result)?;
    for mount_point in ["/work", "/tmp"] {
        let stdout = report.stdout();
        let inside = stdout.lines().find(|line| line.split(' ').nth(4) == Some(mount_point));
        let options = inside.and_then(|line| line.split(' ').nth(5)).unwrap_or_default();
        let has = |option: &str| options.split(',').any(|one| one == option);
        ensure!(has("rw"), "{mount_point} is mounted with {options}");
        match test_env.engine {
            Engine::Podman => {
                ensure!(has("nosuid") && has("nodev"), "{mount_point} is mounted with {options}");
                let mounts = found["Mounts"].as_array().map(Vec::as_slice).unwrap_or_default();
                let mount_config =
                    mounts.iter().find(|mount| mount["Destination"] == mount_point).unwrap_or(&Value::Null);
                let mount_config = mount_config["Options"].to_string();
                ensure!(!mount_config.contains("rbind"), "{mount_point} was created with {mount_config}");
            }
            Engine::Docker => {
                let mounts = found.pointer("/HostConfig/Mounts").and_then(Value::as_array);
                let mounts = mounts.map(Vec::as_slice).unwrap_or_default();
                let mount_config = mounts.iter().find(|mount| mount["Target"] == mount_point).unwrap_or(&Value::Null);
                ensure!(
                    mount_config["BindOptions"]["NonRecursive"] == true,
                    "{mount_point} was created with {mount_config}"
                );
            }
        }
    }
    Ok(())
}

/// Returns a message for each mount that is not a private bind mount and for each unexpected writable one.
fn mounts(mounts: &Value, writable: &[&str]) -> Vec<String> {
    let all = mounts.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut wrong: Vec<String> = all
        .iter()
        .filter(|mount| mount["Type"] != "bind" || mount["Propagation"] != "rprivate")
        .map(|mount| format!("a mount is {mount}"))
        .collect();
    let open = all.iter().filter(|mount| mount["RW"] == true).filter_map(|mount| mount["Destination"].as_str());
    let mut open: Vec<&str> = open.collect();
    open.sort_unstable();
    if open != writable {
        wrong.push(format!("writable are {open:?}"));
    }
    wrong
}
