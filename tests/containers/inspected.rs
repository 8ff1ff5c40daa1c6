//! C3: a container as its engine made it, whatever codebox asked for.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::ground::Ground;
use crate::row::{Row, row};
use crate::watched::{WAITING, during};

/// What the job may have, so that the numbers are none of anybody's defaults.
const LIMITS: [&str; 8] = ["--memory", "128M", "--max-processes", "24", "--max-open-files", "128", "--max-disk", "32M"];

/// Everything that has one right value on both engines.
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

/// Lists that have to be empty, or not there.
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

/// An image that asks for a volume, root, a health check and an entry point gets none of them.
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
    // Podman tells of its private messages as shareable, and has no word for control groups over this interface before
    // its version 5: what a job sees of them is its own group, for reading.
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
        // Podman tells each power by its name, and that none is left in lists of their own.
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

/// What the job's own directories are mounted with: no mount below them, and where the engine takes it, no set-user-id
/// programs and no devices.
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

/// Binds alone, private each, and writable only what is to be.
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
