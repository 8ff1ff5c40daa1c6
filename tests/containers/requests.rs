//! C4: no option, grant, image name or configuration key gives a container more than codebox's containers may have.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;

use crate::ground::Ground;
use crate::row::{Row, row};

/// Options of the engines' own CLIs.
const OPTIONS: [&[&str]; 15] = [
    &["--privileged"],
    &["--cap-add", "ALL"],
    &["--pid", "host"],
    &["--ipc", "host"],
    &["--uts", "host"],
    &["--userns", "host"],
    &["--network", "host"],
    &["--volume", "/:/host"],
    &["--mount", "type=bind,source=/,target=/host"],
    &["--device", "/dev/null"],
    &["--security-opt", "seccomp=unconfined"],
    &["--user", "0"],
    &["--runtime", "runc"],
    &["--env-file", "/proc/self/environ"],
    &["--volumes-from", "other"],
];

/// Host directories that are forbidden or missing. `GRANT` stands for a directory that may be granted.
const GRANTS: [&str; 27] = [
    "/:/host",
    "/proc:/data",
    "/proc/self/root:/data",
    "/proc/self/fd:/data",
    "/sys:/data",
    "/dev:/data",
    "/var/run:/data",
    "/run/podman:/data",
    "/run/podman/podman.sock:/data",
    "/var/run/docker.sock:/data",
    "/var/lib/docker:/data",
    "/var/lib/containers:/data",
    "GRANT:/",
    "GRANT:/proc",
    "GRANT:/proc/self/fd/7",
    "GRANT:/sys/fs/cgroup",
    "GRANT:/dev:rw",
    "GRANT:/etc",
    "GRANT:/usr/bin",
    "GRANT:/run/codebox",
    "GRANT:/.codebox",
    "GRANT:/.codebox/agent",
    "GRANT:/work/../etc",
    "GRANT:data",
    "GRANT:/data:rw,suid",
    "GRANT:/data:rw:shared",
    "GRANT:/data:Z",
];

/// Unknown configuration keys and invalid values.
const KEYS: [&str; 8] = [
    "privileged = true",
    "[containers]\nprivileged = true",
    "[container]\nnetwork = \"host\"",
    "[images]\noptions = [\"--privileged\"]",
    "[images]\npython = \"-v /:/host localhost/codebox-test:1\"",
    "engine = \"docker --privileged\"",
    "engine = \"unix:///run/podman/podman.sock\"",
    "[policy]\nseccomp = \"unconfined\"",
];

/// Invalid image names.
const IMAGES: [&str; 8] = [
    "-v",
    "--privileged",
    "localhost/codebox-test:1 --privileged",
    "localhost/codebox-test:1/../../x",
    "localhost/codebox-test:1?all=1",
    "localhost/codebox-test:1#",
    "../codebox-test",
    "LOCALHOST/codebox\ntest",
];

pub fn rows() -> Vec<Row> {
    vec![
        row("C4::options", options),
        row("C4::grants", grants),
        row("C4::configuration", configuration),
        row("C4::project", project),
        row("C13::names", image_names),
        row("C13::digest", foreign_digest),
    ]
}

/// Checks that a job is refused as an invalid request before anything is created.
pub fn refused(ground: &Ground, job: Codebox, what: &str) -> Result<()> {
    let ran = job.args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    ensure!(!ran.hung && ran.signal.is_none(), "{what}: it hung or died");
    let report = ran.report().with_context(|| what.to_owned())?;
    let kinds = ["invalid_request", "path_rejected", "escalation_refused", "denied"];
    let as_it_should = kinds.contains(&report.kind()) && matches!(ran.code, Some(125 | 126));
    ensure!(as_it_should, "{what}: it ended with {:?} as {:.600}", ran.code, report.json().to_string());
    let made = ground.containers()?;
    ensure!(made.is_empty(), "{what}: a container was made: {made:?}");
    ground.canaries.check(&ran)
}

fn options(ground: &Ground) -> Result<()> {
    for options in OPTIONS {
        refused(ground, ground.run().args(options.iter().copied()), &options.join(" "))?;
    }
    for engine in ["unix:///run/podman/podman.sock", "docker --privileged", ""] {
        let job = ground.codebox().args(["run", "--json", "--isolation", "container", "--engine", engine]);
        refused(ground, job, engine)?;
    }
    Ok(())
}

fn grants(ground: &Ground) -> Result<()> {
    let grant = ground.canaries.grant().display().to_string();
    GRANTS.iter().try_for_each(|spec| {
        refused(ground, ground.run().args(["--dir".to_owned(), spec.replace("GRANT", &grant)]), spec)
    })?;
    let own = [ground.home().to_owned(), ground.home().join("cache"), ground.home().join("cache/scratch")];
    own.iter().try_for_each(|place| refused(ground, ground.run().grant(place, "/data", "rw"), "codebox's own files"))
}

fn configuration(ground: &Ground) -> Result<()> {
    let file = ground.home().join("config/config.toml");
    KEYS.iter().try_for_each(|text| {
        fs::write(&file, text)?;
        refused(ground, ground.run(), text)
    })
}

/// A project file, which comes with the program, cannot request more either.
fn project(ground: &Ground) -> Result<()> {
    let folder = ground.kit.folder()?;
    KEYS.iter().try_for_each(|text| {
        fs::write(folder.path().join("codebox.toml"), text)?;
        refused(ground, ground.run().folder(folder.path()), text)
    })
}

fn image_names(ground: &Ground) -> Result<()> {
    IMAGES.iter().try_for_each(|name| refused(ground, ground.run_image(name), name))
}

/// A tag does not satisfy a request for a digest.
fn foreign_digest(ground: &Ground) -> Result<()> {
    let name = format!("{}@sha256:{}", codebox_testkit::BASE_IMAGE, "0".repeat(64));
    let ran = ground.run_image(&name).args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    let report = ran.report()?;
    ensure!(report.kind() == "image_error", "it ended as {:.600}", report.json().to_string());
    ensure!(ground.containers()?.is_empty(), "a container was made");
    Ok(())
}
