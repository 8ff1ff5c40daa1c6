//! Hostile source distributions: escape attempts of a build, its remains, and malformed archives.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use codebox_testkit::Canaries;

use super::{Case, TestEnvironment};
use crate::index::{Index, IndexFile, pure, sdist, unique};
use crate::sdist_source::Source;
use crate::{run_expecting_failure, run_successfully};

pub(super) const CASES: &[Case] = &[
    ("build_cannot_reach_host", build_cannot_reach_host),
    ("build_obeys_run_limits", build_obeys_run_limits),
    ("rejects_invalid_build_output", rejects_invalid_build_output),
    ("reports_build_failure", reports_build_failure),
    ("rejects_malformed_sources", rejects_malformed_sources),
    ("rejects_build_requirements_by_url", rejects_build_requirements_by_url),
    ("starts_no_host_program", starts_no_host_program),
    ("builds_per_image", builds_per_image),
    ("rejects_contradicting_wheel", rejects_contradicting_wheel),
    ("explains_unsolvable_requirements", explains_unsolvable_requirements),
];

/// Escape attempts of the build; each prints a line with `ESCAPE` on success.
const ESCAPE_ATTEMPTS: &str = r#"
import socket, subprocess
def tries(what, act):
    try:
        result = act()
    except Exception as error:
        print("blocked:", what, type(error).__name__, file=sys.stderr)
    else:
        if result:
            print("ESCAPE", what, result, file=sys.stderr)
tries("a secret file", lambda: open("PLACE/canary").read())
tries("a secret variable", lambda: os.environ.get("CODEBOX_CANARY"))
tries("the listener", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
tries("another host", lambda: socket.create_connection(("192.0.2.1", 80), 2))
tries("a name", lambda: socket.getaddrinfo("example.org", 80))
tries("a network", lambda: [name for _, name in socket.if_nameindex() if name != "lo"])
for place in ("/source/planted", "/usr/local/lib/codebox/planted", "/etc/planted", "/escaped", "/run/codebox/planted"):
    tries(place, lambda: open(place, "w"))
tries("the source", lambda: os.remove("/source/wheel.json") or "removed")
tries("the grants of the program", lambda: os.listdir("/granted"))
tries("the engine", lambda: [path for path in ("/var/run/docker.sock", "/run/podman") if os.path.exists(path)])
tries("root", lambda: os.getuid() == 0 and open("/proc/1/environ").read())
os.symlink("PLACE", "/work/link")
os.symlink("PLACE/canary", directory + "/../secret")
os.makedirs("/work/wheel/../other")
open("/work/../../../../../../tmp/planted", "w").close()
raise SystemExit("tried all")
"#;

fn build_cannot_reach_host(test_env: &TestEnvironment) -> Result<()> {
    let canaries = Canaries::plant(&test_env.kit)?;
    let name = unique("reaches");
    let place = canaries.file().parent().map(|place| place.display().to_string()).unwrap_or_default();
    let build_code = ESCAPE_ATTEMPTS.replace("PLACE", &place).replace("PORT", &canaries.port().to_string());
    let index = Index::of([Source { build_code: &build_code, ..Source::of(&name, "") }.with_static_metadata()])?;
    // Grants of the program do not apply to the builds of its packages.
    let job = test_env.building(&index).grant(&canaries.grant(), "/granted", "rw");
    let job = job.args(["--env", "CODEBOX_CANARY", "--net", &format!("127.0.0.1:{}", canaries.port())]);
    let result = canaries.around(job.args(["--with", &name, "-c", "print(1)"])).run()?;
    let output = format!("{}\n{}", result.stdout_text(), result.stderr_text());
    ensure!(result.report()?.kind() == "install_failed" && output.contains("tried all"), "{output}");
    ensure!(output.contains("blocked: a secret file FileNotFoundError"), "{output}");
    canaries.check(&result)?;
    ensure!(!test_env.has_built_packages());
    Ok(())
}

fn build_obeys_run_limits(test_env: &TestEnvironment) -> Result<()> {
    for (build_code, options, expected) in [
        ("while True:\n    pass", ["--timeout", "3s"], "wall time limit of 3s"),
        ("time.sleep(1000)", ["--timeout", "3s"], "wall time limit of 3s"),
        ("while True:\n    print('x' * 100000)", ["--max-output", "1M"], "output limit"),
        (
            "for n in range(100):\n    open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))\n    time.sleep(0.05)",
            ["--max-disk", "20M"],
            "disk limit",
        ),
        ("x = bytearray(1 << 30)\nfor at in range(0, 1 << 30, 4096):\n    x[at] = 1", ["--memory", "128M"], ""),
        ("for n in range(200):\n    os.fork() or time.sleep(30)", ["--max-processes", "20"], ""),
    ] {
        let name = unique("limited");
        let index = Index::of([Source { build_code, ..Source::of(&name, "") }.with_static_metadata()])?;
        let job = test_env.building(&index).args(options).args(["--with", &name, "-c", "print(1)"]);
        let output = run_expecting_failure(job, "install_failed")?;
        ensure!(output.contains("cannot build") && output.contains(expected), "{build_code}: {output}");
        ensure!(!test_env.has_built_packages());
    }
    Ok(())
}

fn rejects_invalid_build_output(test_env: &TestEnvironment) -> Result<()> {
    let other = unique("other").replace('-', "_");
    let foreign_tag = "cp27-cp27m-win_amd64".to_owned();
    for (what, expected) in [
        ("another name", "its name or version does not match"),
        ("another version", "its name or version does not match"),
        ("a name that is not a wheel's", "install"),
        ("for another system", "it is not compatible with"),
        ("members outside the directory", "a name that is not allowed"),
        ("metadata of another package", "its metadata is for package"),
        ("oversized metadata", "larger than 1 MiB"),
        ("two wheels", "no wheel or more than one"),
        ("no wheel", "no wheel or more than one"),
        ("a link", "no wheel or more than one"),
        ("a directory", "no wheel or more than one"),
        ("no archive", "is not a valid zip archive"),
    ] {
        let name = unique("leaves");
        let stem = name.replace('-', "_");
        let metadata = format!("{stem}-1.dist-info/METADATA");
        let large_metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\n{}", "x".repeat(2 << 20));
        let (mut file, mut build_code, mut members) = (None, String::new(), Vec::new());
        match what {
            "another name" => file = Some(format!("{other}-1-py3-none-any.whl")),
            "another version" => file = Some(format!("{stem}-2-py3-none-any.whl")),
            "a name that is not a wheel's" => file = Some(format!("{stem}.zip")),
            "for another system" => file = Some(format!("{stem}-1-{foreign_tag}.whl")),
            "members outside the directory" => members.push(("../../../../planted", "x")),
            "metadata of another package" => {
                members.push((metadata.as_str(), "Metadata-Version: 2.1\nName: other\nVersion: 1\n"));
            }
            "oversized metadata" => members.push((metadata.as_str(), large_metadata.as_str())),
            "two wheels" => build_code = "open(directory + '/more.whl', 'w').close()".to_owned(),
            "no wheel" => build_code = "os._exit(0)".to_owned(),
            "a link" => {
                build_code =
                    format!("os.symlink('/etc/hostname', directory + '/{stem}-1-py3-none-any.whl'); os._exit(0)")
            }
            "a directory" => build_code = format!("os.mkdir(directory + '/{stem}-1-py3-none-any.whl'); os._exit(0)"),
            _ => build_code = format!("open(directory + '/{stem}-1-py3-none-any.whl', 'w').write('x'); os._exit(0)"),
        }
        let source =
            Source { build_code: &build_code, file, members: &members, ..Source::of(&name, "") }.with_static_metadata();
        let index = Index::of([source])?;
        let output = run_expecting_failure(test_env.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(output.contains(expected) && !output.contains("internal"), "{what}: {output}");
        ensure!(!test_env.has_built_packages() && !test_env.run_packages(&["list"])?.contains(&stem), "{what}");
    }
    ensure!(!std::path::Path::new("/planted").exists() && !std::path::Path::new("/tmp/planted").exists());
    Ok(())
}

fn reports_build_failure(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("fails");
    let build_code =
        "print('\\x1b]0;title\\x07 many\\nlines', file=sys.stderr)\nraise RuntimeError('no compiler \\x1b[2J here')";
    let index = Index::of([Source { build_code, ..Source::of(&name, "") }.with_static_metadata()])?;
    let result = test_env.with(&index, &name, "print(1)").run()?;
    let (report, output) = (result.report()?, result.stderr_text());
    ensure!(report.kind() == "install_failed" && result.code == Some(125), "{}", result.stdout_text());
    let line = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(line.contains(&format!("cannot build {name} 1: the build exited with status 1")), "{line}");
    ensure!(line.contains("no compiler") && !line.contains('\n'), "{line}");
    ensure!(output.contains("RuntimeError") && output.contains("backend.py"), "{output}");
    ensure!(!result.stderr.contains(&0x1b) && !result.stderr.contains(&7), "{output}");
    Ok(())
}

/// Function that creates a source distribution for a package name.
type MakeSdist = Box<dyn Fn(&str) -> IndexFile>;

/// Malformed archives are refused before a container starts.
fn rejects_malformed_sources(test_env: &TestEnvironment) -> Result<()> {
    let project = ("pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'x'\n");
    let mut all: Vec<(&str, MakeSdist)> = Vec::new();
    for entry in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo] {
        all.push(("neither a file nor a directory", Box::new(move |name| malformed_sdist(name, "setup.py", entry))));
    }
    for member in ["../../planted", "/tmp/codebox-planted", "x/../../../y", "a\\b", "c:d"] {
        all.push((
            "a name that is not allowed",
            Box::new(move |name| malformed_sdist(name, member, tar::EntryType::Regular)),
        ));
    }
    all.push(("occurs twice", Box::new(move |name| sdist(name, "1", &[project, ("a.py", "1"), ("A.py", "2")]))));
    all.push((
        "is not a valid",
        Box::new(|name| IndexFile::new(format!("{}-1.tar.gz", name.replace('-', "_")), b"no archive".to_vec())),
    ));
    let bad = "[build-system]\nrequires = ['x @ http://127.0.0.1/x.whl']\n";
    all.push(("invalid package", Box::new(move |name| sdist(name, "1", &[("pyproject.toml", bad)]))));
    let bad = "[build-system]\nrequires = []\nbuild-backend = 'os; x'\n";
    all.push(("build-backend", Box::new(move |name| sdist(name, "1", &[("pyproject.toml", bad)]))));
    for (expected, index_file) in all {
        let name = unique("odd");
        let index = Index::of([index_file(&name)])?;
        let output = run_expecting_failure(test_env.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(output.contains(expected) && !output.contains("the build"), "{expected}: {output}");
    }
    // An archive whose content differs from its announced digest is refused too.
    let name = unique("wrong");
    let mut index_file = Source::of(&name, "").with_static_metadata();
    index_file.announced_sha256 = "0".repeat(64);
    let index = Index::of([index_file])?;
    let output = run_expecting_failure(test_env.with(&index, &name, "print(1)"), "install_failed")?;
    ensure!(output.contains("sha256") && !test_env.has_built_packages(), "{output}");
    ensure!(!std::path::Path::new("/tmp/codebox-planted").exists());
    Ok(())
}

/// Returns a source distribution with one member of this kind, with its name written literally.
fn malformed_sdist(name: &str, member: &str, kind: tar::EntryType) -> IndexFile {
    let stem = format!("{}-1", name.replace('-', "_"));
    let path = if member.starts_with('/') { member.to_owned() } else { format!("{stem}/{member}") };
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(0);
    if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
        header.set_link_name("/etc/hostname").expect("a short name");
    }
    header.set_cksum();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(gzip);
    tar.append(&header, std::io::empty()).expect("a member");
    let content = tar.into_inner().and_then(flate2::write::GzEncoder::finish).expect("an archive");
    IndexFile::new(format!("{stem}.tar.gz"), content)
}

fn rejects_build_requirements_by_url(test_env: &TestEnvironment) -> Result<()> {
    let many: Vec<&str> = std::iter::repeat_n("six", 1000).collect();
    for build_requires in
        [&["-r /etc/passwd"][..], &["x @ http://127.0.0.1/x.whl"], &["--index-url=http://127.0.0.1:1/"], &many]
    {
        let name = unique("url-requires");
        let index = Index::of([Source { build_requires, ..Source::of(&name, "") }.with_static_metadata()])?;
        let output = run_expecting_failure(test_env.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(output.contains("invalid requirements from its build backend"), "{output}");
        let requested = index.requests();
        ensure!(
            requested.iter().all(|path| path.contains(&name) || path.contains(&name.replace('-', "_"))),
            "{requested:?}"
        );
    }
    Ok(())
}

fn starts_no_host_program(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let marker = folder.path().join("started");
    for program in ["python", "python3", "pip", "pip3", "uv", "tar", "gzip", "git", "sh", "cc", "gcc"] {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\necho {program} >> {}\n", marker.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let name = unique("quiet");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").with_dynamic_metadata()])?;
    let job = test_env.with(&index, &name, &format!("import {module}\nprint({module}.VALUE)"));
    ensure!(run_successfully(job.env("PATH", folder.path().as_os_str()))? == "7\n");
    ensure!(!marker.exists(), "{}", std::fs::read_to_string(&marker)?);
    Ok(())
}

/// A package that was built in the image of one run's `--image` is not used by runs without that option.
fn builds_per_image(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("image");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").with_static_metadata()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let image = ["--image", codebox_testkit::BASE_IMAGE];
    let run_with_image = || test_env.building(&index).args(image).args(["--with", &name, "-c", &program]);
    let image_output = run_successfully(run_with_image())?;
    ensure!(run_successfully(run_with_image())? == image_output);
    let default_output = run_successfully(test_env.with(&index, &name, &program))?;
    ensure!(default_output != image_output, "{default_output}");
    Ok(())
}

/// A wheel that contradicts the static metadata of its source is refused. Otherwise the same command would resolve to
/// other packages once the index is queried again.
fn rejects_contradicting_wheel(test_env: &TestEnvironment) -> Result<()> {
    let (name, need) = (unique("breaks"), unique("need"));
    let index = Index::of([
        Source { requires: &[&need], ..Source::of(&name, "") }.with_wrong_metadata(),
        pure(&need, "1", &[], &[(&format!("{}.py", need.replace('-', "_")), "")]),
    ])?;
    for isolation in ["wasm", "container"] {
        let job = test_env.building(&index).args(["--isolation", isolation, "--with", &name, "-c", "print(1)"]);
        let output = run_expecting_failure(job, "install_failed")?;
        ensure!(
            output.contains(&format!("it requires {need}, but the static metadata of its source does not")),
            "{output}"
        );
        ensure!(!test_env.has_built_packages());
    }
    Ok(())
}

/// With sources allowed, missing wheels are not given as the reason for an impossible resolution.
fn explains_unsolvable_requirements(test_env: &TestEnvironment) -> Result<()> {
    let (name, need) = (unique("conf"), unique("okone"));
    let requirement = format!("{need}==99");
    let index = Index::of([
        Source { requires: &[&requirement], ..Source::of(&name, "") }.with_static_metadata(),
        Source::of(&need, "").with_static_metadata(),
    ])?;
    for isolation in ["wasm", "container"] {
        let job = test_env.building(&index).args(["--isolation", isolation, "--with", &name, "-c", "print(1)"]);
        let output = run_expecting_failure(job, "install_failed")?;
        ensure!(output.contains(&requirement) && !output.contains("only source distributions"), "{output}");
    }
    // Without `--build`, the missing wheels are the reason.
    let job = test_env.codebox(&index).args(["run", "--json", "--with", &name, "-c", "print(1)"]);
    ensure!(run_expecting_failure(job, "install_failed")?.contains("only a source distribution"));
    Ok(())
}
