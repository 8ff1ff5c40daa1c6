//! Second and later runs with packages, and package resolution compared with uv.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};
use crate::project::output_of;

const WASM: &str = "wasm, second run with 10 pure packages, vs the same process without";
const CONTAINER: &str = "container, second run `--with polars`, vs the same without";
const LOCK: &str = "choosing 30 packages, warm cache, `codebox lock` vs `uv pip compile`";

const REPEATED: &str = "third run of a script with requests and rich vs `uv run` of it, warm";

/// Ten platform-independent packages that the runtime does not have built in.
const PURE: [&str; 10] = [
    "requests",
    "rich",
    "click",
    "tomlkit",
    "humanize",
    "itsdangerous",
    "pluggy",
    "iniconfig",
    "colorama",
    "inflection",
];

/// Requirements that resolve to some thirty packages.
const MANY: [&str; 12] = [
    "requests",
    "rich",
    "flask",
    "httpx",
    "pytest",
    "fastapi",
    "typer",
    "jsonschema",
    "boto3",
    "sphinx",
    "black",
    "tox",
];

const PROGRAM: &str = "print(1)";

/// Compares WebAssembly with packages with WebAssembly without packages.
///
/// # Errors
/// Fails if an output is wrong.
pub fn wasm(inputs: &BenchInputs) -> Result<Row> {
    let with: Vec<&str> = PURE.iter().flat_map(|name| ["--with", *name]).collect();
    with_and_without(inputs, WASM, 1.3, &["--isolation", "wasm"], &with, inputs.runs.short)
}

/// Compares a container with a native package with a container without packages.
///
/// # Errors
/// Fails if an output is wrong.
pub fn container(inputs: &BenchInputs) -> Result<Row> {
    let options =
        ["--isolation", "container", "--engine", "docker", "--image", "localhost/codebox-test:1", "--lang", "python"];
    with_and_without(inputs, CONTAINER, 1.1, &options, &["--with", "polars"], inputs.runs.long * 3)
}

fn with_and_without(
    inputs: &BenchInputs,
    what: &'static str,
    max_ratio: f64,
    options: &[&str],
    with: &[&str],
    runs: usize,
) -> Result<Row> {
    let row = |measurement| Row { what, max_ratio: Some(max_ratio), measurement };
    let command = |with: &[&str]| {
        let mut command = inputs.codebox();
        command.args(options).args(with).args(["-c", PROGRAM]);
        command
    };
    let first = command(with).stdin(Stdio::null()).output().context("start codebox")?;
    if first.stdout != b"1\n" {
        let stderr_text = String::from_utf8_lossy(&first.stderr);
        return Ok(row(Err(stderr_text.lines().last().unwrap_or("did not run").to_owned())));
    }
    let one = Subject { command: command(with), expected_output: "1\n" };
    let medians = run_alternately(one, Subject { command: command(&[]), expected_output: "1\n" }, runs)?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}

/// Compares package resolution from cached index responses with uv.
///
/// # Errors
/// Fails if either program cannot write its resolution.
pub fn lock(inputs: &BenchInputs) -> Result<Row> {
    let row = |measurement| Row { what: LOCK, max_ratio: Some(1.5), measurement };
    let folder = tempfile::tempdir().context("make a directory")?;
    let uv = match uv(inputs, folder.path()) {
        Ok(uv) => uv,
        Err(error) => return Ok(row(Err(format!("no uv: {error:#}")))),
    };
    let script = folder.path().join("main.py");
    let listed: Vec<String> = MANY.iter().map(|name| format!("#   '{name}',\n")).collect();
    fs::write(&script, format!("# /// script\n# dependencies = [\n{}# ]\n# ///\n", listed.concat()))?;
    fs::write(folder.path().join("requirements.in"), MANY.join("\n"))?;
    let mut ours = Command::new(&inputs.codebox);
    ours.env("CODEBOX_HOME", &inputs.project.home).args(["lock", "main.py"]).current_dir(folder.path());
    // `codebox lock` always resolves for each tier; engines are not part of this comparison.
    ours.env("DOCKER_HOST", "unix:///no/docker.sock").env("CONTAINER_HOST", "unix:///no/podman.sock");
    let mut theirs = Command::new(uv);
    theirs.env("UV_CACHE_DIR", folder.path().join("cache")).current_dir(folder.path());
    theirs.args(["pip", "compile", "--quiet", "--only-binary", ":all:", "--python-version", "3.13"]);
    theirs.args(["--output-file", "requirements.txt", "--no-header", "--no-annotate", "--upgrade", "requirements.in"]);
    let expected_output = "wrote main.py.lock\n";
    if let Err(error) = output_of(&mut ours) {
        return Ok(row(Err(format!("{error:#}"))));
    }
    let chosen = output_of(&mut theirs)?;
    // Both programs have cached all index responses by now. The comparison covers the resolution, not the index's
    // response time.
    ours.env("UV_OFFLINE", "1");
    theirs.env("UV_OFFLINE", "1");
    let runs = inputs.runs.long * 3;
    let theirs = Subject { command: theirs, expected_output: &chosen };
    let medians = run_alternately(Subject { command: ours, expected_output }, theirs, runs)?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}

/// Compares a script with packages, whose image codebox has made by itself, with `uv run`.
///
/// # Errors
/// Fails if an output is wrong, or no image is made.
pub fn repeated(inputs: &BenchInputs) -> Result<Row> {
    let row = |measurement| Row { what: REPEATED, max_ratio: Some(0.25), measurement };
    let folder = tempfile::tempdir().context("make a directory")?;
    let uv = match uv(inputs, folder.path()) {
        Ok(uv) => uv,
        Err(error) => return Ok(row(Err(format!("no uv: {error:#}")))),
    };
    let script = folder.path().join("main.py");
    let text = "# /// script\n# dependencies = ['requests', 'rich']\n# ///\nimport requests\n\
                from rich.console import Console\nConsole().print(requests.__name__)\n";
    fs::write(&script, text)?;
    let ours = || {
        let mut ours = inputs.codebox();
        ours.arg(&script);
        ours
    };
    let mut theirs = Command::new(uv);
    theirs.env("UV_CACHE_DIR", folder.path().join("cache")).arg("run").arg(&script);
    for first in [&mut ours(), &mut ours(), &mut theirs] {
        if let Err(error) = output_of(first) {
            return Ok(row(Err(format!("{error:#}"))));
        }
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while !output_of(inputs.command().args(["image", "list"]))?.contains("requests, rich.console") {
        ensure!(Instant::now() < deadline, "no image was made of {text:?}");
        thread::sleep(Duration::from_millis(200));
    }
    theirs.env("UV_OFFLINE", "1");
    let (runs, expected_output) = (inputs.runs.short, "requests\n");
    let theirs = Subject { command: theirs, expected_output };
    let medians = run_alternately(Subject { command: ours(), expected_output }, theirs, runs)?;
    Ok(row(Ok(Measurement::of(&medians, format!("{runs} each")))))
}

/// Installs uv into the folder and returns its executable.
fn uv(inputs: &BenchInputs, folder: &std::path::Path) -> Result<std::path::PathBuf> {
    let place = folder.join("uv");
    output_of(inputs.python.pip().args(["install", "--quiet", "--target"]).arg(&place).arg("uv"))?;
    Ok(place.join("bin").join("uv"))
}
