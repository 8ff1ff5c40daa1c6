//! C3: containers as their engine created them, independent of codebox's request.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::ground::Ground;
use crate::row::{Row, row};
use crate::watched::{WAITING, during};

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
        ("/Args", json!(["serve"])),
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
    vec![row("C3::as_made", as_made), row("C13::as_made", hostile_as_made), row("C3::own_directories", own_directories)]
}

fn as_made(ground: &Ground) -> Result<()> {
    let job = ground.run_granted().args(LIMITS).args(["--lang", "python", "-c", WAITING]);
    let (ran, found) = during(ground, job, |id| ground.engine.inspect(id))?;
    let report = ground.judge(&ran)?;
    ensure!(report.stdout() == "told\n", "it ended as {}", report.json());
    check(ground.engine, &found, &["/data", "/tmp", "/work"])
}

/// A volume, root user, health check and entry point that an image declares have no effect.
fn hostile_as_made(ground: &Ground) -> Result<()> {
    let job = ground.run_hostile().grant(&ground.canaries.grant(), "/data", "rw").args(LIMITS);
    let (ran, found) = during(ground, job.args(["--lang", "python", "-c", WAITING]), |id| ground.engine.inspect(id))?;
    let report = ground.judge(&ran)?;
    ensure!(report.stdout() == "told\n", "it ended as {}", report.json());
    check(ground.engine, &found, &["/data", "/tmp", "/work"])
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
    if !at("/HostConfig/PidsLimit").as_i64().is_some_and(|most| (24..=48).contains(&most)) {
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
    wrong.extend(mounts(&at("/Mounts"), writable));
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

fn limits(ulimits: &Value) -> Vec<String> {
    let wanted = [("core", 0), ("nofile", 128), ("fsize", 32 << 20)];
    let is = |ulimit: &Value, name: &str| {
        let text = ulimit["Name"].as_str().unwrap_or("").to_ascii_lowercase();
        text.trim_start_matches("rlimit_") == name
    };
    let all = ulimits.as_array().map(Vec::as_slice).unwrap_or_default();
    let wrong = wanted.into_iter().filter(|(name, most)| {
        !all.iter().any(|one| is(one, name) && one["Hard"] == json!(most) && one["Soft"] == json!(most))
    });
    wrong.map(|(name, most)| format!("{name} is not {most}: {ulimits}")).collect()
}

/// The job's own directories are mounted without submounts and, as far as the engine supports it, without set-user-id
/// programs and devices.
fn own_directories(ground: &Ground) -> Result<()> {
    let code = format!("print(open('/proc/self/mountinfo').read(), flush=True)\n{WAITING}");
    let job = ground.run_granted().args(["--lang", "python", "-c", &code]);
    let (ran, found) = during(ground, job, |id| ground.engine.inspect(id))?;
    let report = ground.judge(&ran)?;
    for place in ["/work", "/tmp"] {
        let stdout = report.stdout();
        let inside = stdout.lines().find(|line| line.split(' ').nth(4) == Some(place));
        let options = inside.and_then(|line| line.split(' ').nth(5)).unwrap_or_default();
        let has = |option: &str| options.split(',').any(|one| one == option);
        ensure!(has("rw"), "{place} is mounted with {options}");
        match ground.engine {
            Engine::Podman => {
                ensure!(has("nosuid") && has("nodev"), "{place} is mounted with {options}");
                let mounts = found["Mounts"].as_array().map(Vec::as_slice).unwrap_or_default();
                let made = mounts.iter().find(|mount| mount["Destination"] == place).unwrap_or(&Value::Null);
                let made = made["Options"].to_string();
                ensure!(!made.contains("rbind"), "{place} was made with {made}");
            }
            Engine::Docker => {
                let mounts = found.pointer("/HostConfig/Mounts").and_then(Value::as_array);
                let mounts = mounts.map(Vec::as_slice).unwrap_or_default();
                let made = mounts.iter().find(|mount| mount["Target"] == place).unwrap_or(&Value::Null);
                ensure!(made["BindOptions"]["NonRecursive"] == true, "{place} was made with {made}");
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
