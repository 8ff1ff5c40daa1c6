//! Package names and lists that are refused, and name resolution.

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, pure, unique};
use crate::{Case, printed, refused, run};

pub const CASES: &[Case] = &[
    ("whatever_is_no_name_is_refused_before_anybody_is_asked", no_names),
    ("a_crowd_is_refused_before_anybody_is_asked", crowd),
    ("one_index_answers_for_a_name", one_index),
    ("a_made_up_name_is_not_found", made_up),
    ("a_project_only_narrows", narrowed),
    ("a_package_that_nobody_asked_for_is_named", unnamed),
];

fn no_names(kit: &Kit) -> Result<()> {
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
        let said = refused(run(kit, &index).arg(format!("--with={name}")).args(["-c", "1"]), "invalid_request")?;
        ensure!(said.contains("invalid package"), "{name:?}: {said}");
    }
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

fn unnamed(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let code = "import sys, json\ntry:\n    import polars\nexcept ImportError: pass\nimport cv2\n";
    let said = run(kit, &index).args(["-c", code]).run()?;
    let report = said.report()?;
    ensure!(report.missing() == ["the module cv2"], "{:?}", report.missing());
    let hint = report.at("/missing/0/hint").as_str().unwrap_or_default().to_owned();
    ensure!(hint.contains("line 5") && hint.contains("--with opencv-python"), "{hint}");
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

/// Each kind of list alone exceeds the bound, and so do two lists together that are each within it.
fn crowd(kit: &Kit) -> Result<()> {
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
        let said = refused(job, "invalid_request")?;
        ensure!(said.contains("at most 500"), "{said}");
    }
    // Duplicate requirements count once; this package is built in.
    let same: Vec<String> = (0..300).map(|number| format!("six>=0.{number}")).collect();
    std::fs::write(folder.path().join("same.txt"), same.join("\n"))?;
    ensure!(printed(job().args(["-r", "same.txt", "-c", &script(same)]))? == "1\n");
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

fn one_index(kit: &Kit) -> Result<()> {
    let name = unique("twice");
    let module = name.replace('-', "_");
    let file = format!("{module}.py");
    let ours = Index::of([pure(&name, "1.0", &[], &[(&file, "VALUE = 'ours'\n")])])?;
    let theirs = Index::of([pure(&name, "99.0", &[], &[(&file, "VALUE = 'theirs'\n")])])?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let job = run(kit, &theirs).env("UV_INDEX", ours.address.as_str());
    ensure!(printed(job.args(["--with", &name, "-c", &program]))? == "ours\n");
    ensure!(theirs.seen().iter().all(|path| !path.contains(&module)), "{:?}", theirs.seen());
    let wanted = format!("{name}>=2");
    let job = run(kit, &theirs).env("UV_INDEX", ours.address.as_str());
    refused(job.args(["--with", &wanted, "-c", "1"]), "install_failed")?;
    Ok(())
}

fn made_up(kit: &Kit) -> Result<()> {
    let index = Index::of([pure("requests", "2.0", &[], &[])])?;
    let said = refused(run(kit, &index).args(["--with", "reqeusts", "-c", "print(1)"]), "install_failed")?;
    ensure!(said.contains("reqeusts") && said.contains("did you mean requests"), "{said}");
    // All unknown names are reported, and none is suggested for another.
    let said = refused(run(kit, &index).args(["--with=zqxfoo", "--with=zqxfoa", "-c", "1"]), "install_failed")?;
    ensure!(said.contains("zqxfoa, zqxfoo") && !said.contains("did you mean"), "{said}");
    ensure!(!index.seen().iter().any(|path| path.contains("/files/")), "{:?}", index.seen());
    let said = refused(run(kit, &index).args(["--with", "requests==99.0", "-c", "1"]), "install_failed")?;
    ensure!(said.contains("there is no version of requests==99.0"), "{said}");
    Ok(())
}

fn narrowed(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let folder = kit.folder()?;
    let project = folder.path().join("codebox.toml");
    std::fs::write(&project, "[packages]\nallow = ['rich']\n")?;
    let said = refused(run(kit, &index).folder(folder.path()).args(["--with", "six", "-c", "1"]), "denied")?;
    ensure!(said.contains("six"), "{said}");
    std::fs::write(&project, format!("[packages]\nindex = '{}'\n", index.address))?;
    let said = refused(run(kit, &index).folder(folder.path()).args(["--with", "six", "-c", "1"]), "invalid_request")?;
    ensure!(said.contains("a project cannot choose"), "{said}");
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}
