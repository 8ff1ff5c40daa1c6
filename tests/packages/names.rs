//! Package names and lists that are refused, and name resolution.

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, pure, unique};
use crate::{Case, run, run_expecting_failure, run_successfully};

pub const CASES: &[Case] = &[
    ("rejects_invalid_names", rejects_invalid_names),
    ("rejects_too_many_packages", rejects_too_many_packages),
    ("uses_one_index_per_name", uses_one_index_per_name),
    ("reports_unknown_name", reports_unknown_name),
    ("project_only_narrows", project_only_narrows),
    ("names_missing_package", names_missing_package),
];

fn rejects_invalid_names(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    for name in [
        "-r/etc/passwd",
        "--index-url=http://127.0.0.1:1/",
        "git+ssh://127.0.0.1/x",
        "file:///etc/passwd",
        "x @ http://169.254.169.254/x.whl",
        ";",
        "x\n--pre",
        "../x",
        "./x",
        "x;y",
        "",
    ] {
        let output =
            run_expecting_failure(run(kit, &index).arg(format!("--with={name}")).args(["-c", "1"]), "invalid_request")?;
        ensure!(output.contains("invalid package"), "{name:?}: {output}");
    }
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

fn names_missing_package(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let code = "import sys, json\ntry:\n    import polars\nexcept ImportError: pass\nimport cv2\n";
    let output = run(kit, &index).args(["-c", code]).run()?;
    let report = output.report()?;
    ensure!(report.missing() == ["the module cv2"], "{:?}", report.missing());
    let hint = report.at("/missing/0/hint").as_str().unwrap_or_default().to_owned();
    ensure!(hint.contains("line 5") && hint.contains("--with opencv-python"), "{hint}");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

/// Each kind of list alone exceeds the bound, and so do two lists together that are each within it.
fn rejects_too_many_packages(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let folder = kit.folder()?;
    let names = |from: usize, count: usize| (from..from + count).map(|number| format!("cbt-crowd-{number}"));
    let script = |names: Vec<String>| format!("# /// script\n# dependencies = {names:?}\n# ///\nprint(1)\n");
    let with = |names: Vec<String>| names.into_iter().map(|name| format!("--with={name}"));
    std::fs::write(folder.path().join("many.txt"), names(0, 501).collect::<Vec<_>>().join("\n"))?;
    std::fs::write(folder.path().join("half.txt"), names(0, 300).collect::<Vec<_>>().join("\n"))?;
    let job = || run(kit, &index).folder(folder.path());
    for job in [
        job().args(["-c", &script(names(0, 5000).collect())]),
        job().args(with(names(0, 501).collect())).args(["-c", "print(1)"]),
        job().args(["-r", "many.txt", "-c", "print(1)"]),
        job().args(["-r", "half.txt"]).args(with(names(300, 201).collect())).args(["-c", "print(1)"]),
    ] {
        let output = run_expecting_failure(job, "invalid_request")?;
        ensure!(output.contains("at most 500"), "{output}");
    }
    // Duplicate requirements count once; this package is built in.
    let same: Vec<String> = (0..300).map(|number| format!("six>=0.{number}")).collect();
    std::fs::write(folder.path().join("same.txt"), same.join("\n"))?;
    ensure!(run_successfully(job().args(["-r", "same.txt", "-c", &script(same)]))? == "1\n");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

fn uses_one_index_per_name(kit: &Kit) -> Result<()> {
    let name = unique("twice");
    let module = name.replace('-', "_");
    let file = format!("{module}.py");
    let ours = Index::of([pure(&name, "1.0", &[], &[(&file, "VALUE = 'ours'\n")])])?;
    let theirs = Index::of([pure(&name, "99.0", &[], &[(&file, "VALUE = 'theirs'\n")])])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = run(kit, &theirs).env("UV_INDEX", ours.address.as_str());
    ensure!(run_successfully(job.args(["--with", &name, "-c", &program]))? == "ours\n");
    ensure!(theirs.requests().iter().all(|path| !path.contains(&module)), "{:?}", theirs.requests());
    let requirement = format!("{name}>=2");
    let job = run(kit, &theirs).env("UV_INDEX", ours.address.as_str());
    run_expecting_failure(job.args(["--with", &requirement, "-c", "1"]), "install_failed")?;
    Ok(())
}

fn reports_unknown_name(kit: &Kit) -> Result<()> {
    let index = Index::of([pure("requests", "2.0", &[], &[])])?;
    let output =
        run_expecting_failure(run(kit, &index).args(["--with", "reqeusts", "-c", "print(1)"]), "install_failed")?;
    ensure!(output.contains("reqeusts") && output.contains("did you mean requests"), "{output}");
    // All unknown names are reported, and none is suggested for another.
    let output =
        run_expecting_failure(run(kit, &index).args(["--with=zqxfoo", "--with=zqxfoa", "-c", "1"]), "install_failed")?;
    ensure!(output.contains("zqxfoa, zqxfoo") && !output.contains("did you mean"), "{output}");
    ensure!(!index.requests().iter().any(|path| path.contains("/files/")), "{:?}", index.requests());
    let output =
        run_expecting_failure(run(kit, &index).args(["--with", "requests==99.0", "-c", "1"]), "install_failed")?;
    ensure!(output.contains("there is no version of requests==99.0"), "{output}");
    Ok(())
}

fn project_only_narrows(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let folder = kit.folder()?;
    let project = folder.path().join("codebox.toml");
    std::fs::write(&project, "[packages]\nallow = ['rich']\n")?;
    let output =
        run_expecting_failure(run(kit, &index).folder(folder.path()).args(["--with", "six", "-c", "1"]), "denied")?;
    ensure!(output.contains("six"), "{output}");
    std::fs::write(&project, format!("[packages]\nindex = '{}'\n", index.address))?;
    let output = run_expecting_failure(
        run(kit, &index).folder(folder.path()).args(["--with", "six", "-c", "1"]),
        "invalid_request",
    )?;
    ensure!(output.contains("a project cannot choose"), "{output}");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}
