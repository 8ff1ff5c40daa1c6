//! C4: no option, grant, image name or configuration key gives a container more than codebox's containers may have.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

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
        row("C13::digest", tag_does_not_match_digest),
    ]
}

/// Checks that a job is refused as an invalid request before anything is created.
pub fn check_refused(test_env: &TestEnvironment, job: Codebox, what: &str) -> Result<()> {
    let result = job.args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    ensure!(!result.timed_out && result.signal.is_none(), "{what}: timed out or ended by a signal");
    let report = result.report().with_context(|| what.to_owned())?;
    let kinds = ["invalid_request", "path_rejected", "escalation_refused", "denied"];
    let is_refused = kinds.contains(&report.kind()) && matches!(result.code, Some(125 | 126));
    ensure!(is_refused, "{what}: exit status is {:?}, report is {:.600}", result.code, report.json().to_string());
    let made = test_env.containers()?;
    ensure!(made.is_empty(), "{what}: a container was created: {made:?}");
    test_env.canaries.check(&result)
}

fn options(test_env: &TestEnvironment) -> Result<()> {
    for options in OPTIONS {
        check_refused(test_env, test_env.run().args(options.iter().copied()), &options.join(" "))?;
    }
    for engine in ["unix:///run/podman/podman.sock", "docker --privileged", ""] {
        let job = test_env.codebox().args(["run", "--json", "--isolation", "container", "--engine", engine]);
        check_refused(test_env, job, engine)?;
    }
    Ok(())
}

fn grants(test_env: &TestEnvironment) -> Result<()> {
    let grant = test_env.canaries.grant().display().to_string();
    GRANTS.iter().try_for_each(|spec| {
        check_refused(test_env, test_env.run().args(["--dir".to_owned(), spec.replace("GRANT", &grant)]), spec)
    })?;
    let own = [test_env.home().to_owned(), test_env.home().join("cache"), test_env.home().join("cache/scratch")];
    own.iter().try_for_each(|place| {
        check_refused(test_env, test_env.run().grant(place, "/data", "rw"), "codebox's own files")
    })
}

fn configuration(test_env: &TestEnvironment) -> Result<()> {
    let file = test_env.home().join("config/config.toml");
    KEYS.iter().try_for_each(|text| {
        fs::write(&file, text)?;
        check_refused(test_env, test_env.run(), text)
    })
}

/// A project file, which comes with the program, cannot request more either.
fn project(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    KEYS.iter().try_for_each(|text| {
        fs::write(folder.path().join("codebox.toml"), text)?;
        check_refused(test_env, test_env.run().folder(folder.path()), text)
    })
}

fn image_names(test_env: &TestEnvironment) -> Result<()> {
    IMAGES.iter().try_for_each(|name| check_refused(test_env, test_env.run_image(name), name))
}

/// A tag does not satisfy a request for a digest.
fn tag_does_not_match_digest(test_env: &TestEnvironment) -> Result<()> {
    let name = format!("{}@sha256:{}", codebox_testkit::BASE_IMAGE, "0".repeat(64));
    let result = test_env.run_image(&name).args(["--lang", "python", "-c", "print('it ran')"]).run()?;
    let report = result.report()?;
    ensure!(report.kind() == "image_error", "unexpected result: {:.600}", report.json().to_string());
    ensure!(test_env.containers()?.is_empty(), "a container was created");
    Ok(())
}
