//! Hostile source distributions: escape attempts of a build, its remains, and malformed archives.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use codebox_testkit::Canaries;

use super::{Case, Ground};
use crate::built::Source;
use crate::index::{Index, Offered, pure, sdist, unique};
use crate::{printed, refused};

pub(super) const CASES: &[Case] = &[
    ("a_build_reaches_nothing_of_this_machine", reaches),
    ("a_build_is_held_to_the_limits_of_the_run", limits),
    ("what_a_build_leaves_is_refused_as_any_wheel", leaves),
    ("a_failed_build_says_why_and_nothing_is_obeyed", fails),
    ("archives_that_lead_elsewhere_are_never_built", archives),
    ("a_build_asks_for_no_more_than_names", wants),
    ("no_program_of_the_host_is_started", no_program),
    ("what_one_image_built_is_not_another_s", images),
    ("a_wheel_that_breaks_its_source_s_word_is_refused", breaks_its_word),
    ("why_there_is_no_solution_is_told", no_solution),
];

/// Escape attempts of the build; each prints a line with `ESCAPE` on success.
const TRIES: &str = r#"
import socket, subprocess
def tries(what, act):
    try:
        said = act()
    except Exception as error:
        print("held:", what, type(error).__name__, file=sys.stderr)
    else:
        if said:
            print("ESCAPE", what, said, file=sys.stderr)
tries("a secret file", lambda: open("PLACE/canary").read())
tries("a secret variable", lambda: os.environ.get("CODEBOX_CANARY"))
tries("the listener", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
tries("another place", lambda: socket.create_connection(("192.0.2.1", 80), 2))
tries("a name", lambda: socket.getaddrinfo("example.org", 80))
tries("a network", lambda: [name for _, name in socket.if_nameindex() if name != "lo"])
for place in ("/source/planted", "/usr/local/lib/codebox/planted", "/etc/planted", "/escaped", "/run/codebox/planted"):
    tries(place, lambda: open(place, "w"))
tries("the source", lambda: os.remove("/source/wheel.json") or "removed")
tries("what the program was granted", lambda: os.listdir("/granted"))
tries("the engine", lambda: [path for path in ("/var/run/docker.sock", "/run/podman") if os.path.exists(path)])
tries("root", lambda: os.getuid() == 0 and open("/proc/1/environ").read())
os.symlink("PLACE", "/work/link")
os.symlink("PLACE/canary", directory + "/../secret")
os.makedirs("/work/wheel/../other")
open("/work/../../../../../../tmp/planted", "w").close()
raise SystemExit("tried all")
"#;

fn reaches(ground: &Ground) -> Result<()> {
    let canaries = Canaries::plant(&ground.kit)?;
    let name = unique("reaches");
    let place = canaries.file().parent().map(|place| place.display().to_string()).unwrap_or_default();
    let runs = TRIES.replace("PLACE", &place).replace("PORT", &canaries.port().to_string());
    let index = Index::of([Source { runs: &runs, ..Source::of(&name, "") }.stated()])?;
    // Grants of the program do not apply to the builds of its packages.
    let job = ground.building(&index).grant(&canaries.grant(), "/granted", "rw");
    let job = job.args(["--env", "CODEBOX_CANARY", "--net", &format!("127.0.0.1:{}", canaries.port())]);
    let ran = canaries.around(job.args(["--with", &name, "-c", "print(1)"])).run()?;
    let said = format!("{}\n{}", ran.stdout_text(), ran.stderr_text());
    ensure!(ran.report()?.kind() == "install_failed" && said.contains("tried all"), "{said}");
    ensure!(said.contains("held: a secret file FileNotFoundError"), "{said}");
    canaries.check(&ran)?;
    ensure!(!ground.has_built());
    Ok(())
}

fn limits(ground: &Ground) -> Result<()> {
    for (runs, options, told) in [
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
        let name = unique("greedy");
        let index = Index::of([Source { runs, ..Source::of(&name, "") }.stated()])?;
        let job = ground.building(&index).args(options).args(["--with", &name, "-c", "print(1)"]);
        let said = refused(job, "install_failed")?;
        ensure!(said.contains("cannot build") && said.contains(told), "{runs}: {said}");
        ensure!(!ground.has_built());
    }
    Ok(())
}

fn leaves(ground: &Ground) -> Result<()> {
    let other = unique("other").replace('-', "_");
    let far = "cp27-cp27m-win_amd64".to_owned();
    for (what, told) in [
        ("another name", "its name or version does not match"),
        ("another version", "its name or version does not match"),
        ("no wheel's name", "install"),
        ("for another system", "it is not compatible with"),
        ("members that lead elsewhere", "a name that is not allowed"),
        ("a package in it that is another", "its metadata is for package"),
        ("more metadata than anybody has to say", "larger than 1 MiB"),
        ("two of them", "no wheel or more than one"),
        ("none", "no wheel or more than one"),
        ("a link", "no wheel or more than one"),
        ("a directory", "no wheel or more than one"),
        ("no archive", "is not a valid zip archive"),
    ] {
        let name = unique("leaves");
        let stem = name.replace('-', "_");
        let metadata = format!("{stem}-1.dist-info/METADATA");
        let wordy = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\n{}", "x".repeat(2 << 20));
        let (mut file, mut runs, mut members) = (None, String::new(), Vec::new());
        match what {
            "another name" => file = Some(format!("{other}-1-py3-none-any.whl")),
            "another version" => file = Some(format!("{stem}-2-py3-none-any.whl")),
            "no wheel's name" => file = Some(format!("{stem}.zip")),
            "for another system" => file = Some(format!("{stem}-1-{far}.whl")),
            "members that lead elsewhere" => members.push(("../../../../planted", "x")),
            "a package in it that is another" => {
                members.push((metadata.as_str(), "Metadata-Version: 2.1\nName: other\nVersion: 1\n"));
            }
            "more metadata than anybody has to say" => members.push((metadata.as_str(), wordy.as_str())),
            "two of them" => runs = "open(directory + '/more.whl', 'w').close()".to_owned(),
            "none" => runs = "os._exit(0)".to_owned(),
            "a link" => {
                runs = format!("os.symlink('/etc/hostname', directory + '/{stem}-1-py3-none-any.whl'); os._exit(0)")
            }
            "a directory" => runs = format!("os.mkdir(directory + '/{stem}-1-py3-none-any.whl'); os._exit(0)"),
            _ => runs = format!("open(directory + '/{stem}-1-py3-none-any.whl', 'w').write('x'); os._exit(0)"),
        }
        let source = Source { runs: &runs, file, members: &members, ..Source::of(&name, "") }.stated();
        let index = Index::of([source])?;
        let said = refused(ground.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(said.contains(told) && !said.contains("internal"), "{what}: {said}");
        ensure!(!ground.has_built() && !ground.kept(&["list"])?.contains(&stem), "{what}");
    }
    ensure!(!std::path::Path::new("/planted").exists() && !std::path::Path::new("/tmp/planted").exists());
    Ok(())
}

fn fails(ground: &Ground) -> Result<()> {
    let name = unique("fails");
    let runs =
        "print('\\x1b]0;title\\x07 many\\nlines', file=sys.stderr)\nraise RuntimeError('no compiler \\x1b[2J here')";
    let index = Index::of([Source { runs, ..Source::of(&name, "") }.stated()])?;
    let ran = ground.with(&index, &name, "print(1)").run()?;
    let (report, said) = (ran.report()?, ran.stderr_text());
    ensure!(report.kind() == "install_failed" && ran.code == Some(125), "{}", ran.stdout_text());
    let line = report.at("/error/message").as_str().unwrap_or_default();
    ensure!(line.contains(&format!("cannot build {name} 1: the build exited with status 1")), "{line}");
    ensure!(line.contains("no compiler") && !line.contains('\n'), "{line}");
    ensure!(said.contains("RuntimeError") && said.contains("backend.py"), "{said}");
    ensure!(!ran.stderr.contains(&0x1b) && !ran.stderr.contains(&7), "{said}");
    Ok(())
}

/// Function that creates a source distribution for a package name.
type Made = Box<dyn Fn(&str) -> Offered>;

/// Malformed archives are refused before a container starts.
fn archives(ground: &Ground) -> Result<()> {
    let project = ("pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'x'\n");
    let mut all: Vec<(&str, Made)> = Vec::new();
    for entry in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo] {
        all.push(("neither a file nor a directory", Box::new(move |name| odd(name, "setup.py", entry))));
    }
    for member in ["../../planted", "/tmp/codebox-planted", "x/../../../y", "a\\b", "c:d"] {
        all.push(("a name that is not allowed", Box::new(move |name| odd(name, member, tar::EntryType::Regular))));
    }
    all.push(("occurs twice", Box::new(move |name| sdist(name, "1", &[project, ("a.py", "1"), ("A.py", "2")]))));
    all.push((
        "is not a valid",
        Box::new(|name| Offered::new(format!("{}-1.tar.gz", name.replace('-', "_")), b"no archive".to_vec())),
    ));
    let bad = "[build-system]\nrequires = ['x @ http://127.0.0.1/x.whl']\n";
    all.push(("invalid package", Box::new(move |name| sdist(name, "1", &[("pyproject.toml", bad)]))));
    let bad = "[build-system]\nrequires = []\nbuild-backend = 'os; x'\n";
    all.push(("build-backend", Box::new(move |name| sdist(name, "1", &[("pyproject.toml", bad)]))));
    for (told, offered) in all {
        let name = unique("odd");
        let index = Index::of([offered(&name)])?;
        let said = refused(ground.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(said.contains(told) && !said.contains("the build"), "{told}: {said}");
    }
    // An archive whose content differs from its announced digest is refused too.
    let name = unique("wrong");
    let mut offered = Source::of(&name, "").stated();
    offered.announced = "0".repeat(64);
    let index = Index::of([offered])?;
    let said = refused(ground.with(&index, &name, "print(1)"), "install_failed")?;
    ensure!(said.contains("sha256") && !ground.has_built(), "{said}");
    ensure!(!std::path::Path::new("/tmp/codebox-planted").exists());
    Ok(())
}

/// Returns a source distribution with one member of this kind, with its name written literally.
fn odd(name: &str, member: &str, kind: tar::EntryType) -> Offered {
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
    Offered::new(format!("{stem}.tar.gz"), content)
}

fn wants(ground: &Ground) -> Result<()> {
    let many: Vec<&str> = std::iter::repeat_n("six", 1000).collect();
    for wants in [&["-r /etc/passwd"][..], &["x @ http://127.0.0.1/x.whl"], &["--index-url=http://127.0.0.1:1/"], &many]
    {
        let name = unique("wants");
        let index = Index::of([Source { wants, ..Source::of(&name, "") }.stated()])?;
        let said = refused(ground.with(&index, &name, "print(1)"), "install_failed")?;
        ensure!(said.contains("invalid requirements from its build backend"), "{said}");
        let asked = index.seen();
        ensure!(asked.iter().all(|path| path.contains(&name) || path.contains(&name.replace('-', "_"))), "{asked:?}");
    }
    Ok(())
}

fn no_program(ground: &Ground) -> Result<()> {
    let folder = ground.kit.folder()?;
    let mark = folder.path().join("started");
    for program in ["python", "python3", "pip", "pip3", "uv", "tar", "gzip", "git", "sh", "cc", "gcc"] {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\necho {program} >> {}\n", mark.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let name = unique("quiet");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").unstated()])?;
    let job = ground.with(&index, &name, &format!("import {module}\nprint({module}.VALUE)"));
    ensure!(printed(job.env("PATH", folder.path().as_os_str()))? == "7\n");
    ensure!(!mark.exists(), "{}", std::fs::read_to_string(&mark)?);
    Ok(())
}

/// A package that was built in the image of one run's `--image` is not used by runs without that option.
fn images(ground: &Ground) -> Result<()> {
    let name = unique("image");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = BUILT_AT\n").stated()])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let image = ["--image", codebox_testkit::BASE_IMAGE];
    let named = || ground.building(&index).args(image).args(["--with", &name, "-c", &program]);
    let first = printed(named())?;
    ensure!(printed(named())? == first);
    let usual = printed(ground.with(&index, &name, &program))?;
    ensure!(usual != first, "{usual}");
    Ok(())
}

/// A wheel that contradicts the static metadata of its source is refused. Otherwise the same command would resolve to
/// other packages once the index is queried again.
fn breaks_its_word(ground: &Ground) -> Result<()> {
    let (name, need) = (unique("breaks"), unique("need"));
    let index = Index::of([
        Source { requires: &[&need], ..Source::of(&name, "") }.misstated(),
        pure(&need, "1", &[], &[(&format!("{}.py", need.replace('-', "_")), "")]),
    ])?;
    for isolation in ["wasm", "container"] {
        let job = ground.building(&index).args(["--isolation", isolation, "--with", &name, "-c", "print(1)"]);
        let said = refused(job, "install_failed")?;
        ensure!(
            said.contains(&format!("it requires {need}, but the static metadata of its source does not")),
            "{said}"
        );
        ensure!(!ground.has_built());
    }
    Ok(())
}

/// With sources allowed, missing wheels are not given as the reason for an impossible resolution.
fn no_solution(ground: &Ground) -> Result<()> {
    let (name, need) = (unique("conf"), unique("okone"));
    let wants = format!("{need}==99");
    let index =
        Index::of([Source { requires: &[&wants], ..Source::of(&name, "") }.stated(), Source::of(&need, "").stated()])?;
    for isolation in ["wasm", "container"] {
        let job = ground.building(&index).args(["--isolation", isolation, "--with", &name, "-c", "print(1)"]);
        let said = refused(job, "install_failed")?;
        ensure!(said.contains(&wants) && !said.contains("only source distributions"), "{said}");
    }
    // Without `--build`, the missing wheels are the reason.
    let job = ground.codebox(&index).args(["run", "--json", "--with", &name, "-c", "print(1)"]);
    ensure!(refused(job, "install_failed")?.contains("only a source distribution"));
    Ok(())
}
