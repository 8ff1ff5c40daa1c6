//! Hostile indexes and archives.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use codebox_testkit::Kit;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::built::Source;
use crate::index::{Index, Manner, Offered, archive, pure, unique, wheel};
use crate::{Case, printed, refused, run, without_engines};

pub const CASES: &[Case] = &[
    ("another_content_than_was_announced", wrong_hash),
    ("archives_that_lead_elsewhere", archives),
    ("a_source_is_never_fetched_nor_built", sources),
    ("no_program_of_the_host_is_started", no_program),
    ("an_index_that_never_ends", slow),
    ("a_file_that_never_ends", slow_file),
    ("needs_that_no_reader_gets_through", tangled),
    ("a_wheel_that_needs_many_others", many_needs),
    ("a_page_that_leads_to_a_file_of_this_machine", local_file),
    ("a_page_that_never_ends", endless_page),
    ("an_index_that_leads_to_this_machine_s_own_places", astray),
    ("a_native_package_never_enters_wasm", native),
    ("what_a_program_prints_installs_nothing", printed_error),
    ("a_package_that_wants_another_from_an_address", address),
];

fn wrong_hash(kit: &Kit) -> Result<()> {
    let name = unique("wrong");
    let mut offered = pure(&name, "1", &[], &[]);
    offered.announced = "0".repeat(64);
    let index = Index::of([offered])?;
    let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(said.contains("sha256"), "{said}");
    Ok(())
}

/// Returns a wheel in which a member's name is replaced by another of the same length.
fn patched(name: &str, from: &str, to: &str) -> Offered {
    let Offered { file, mut content, .. } = pure(name, "1", &[], &[(from, "bad = 1\n"), ("good.py", "good = 1\n")]);
    for at in 0..=content.len() - from.len() {
        if content[at..].starts_with(from.as_bytes()) {
            content[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
    }
    Offered::new(file, content)
}

fn archives(kit: &Kit) -> Result<()> {
    let mut all = Vec::new();
    for (from, to) in [
        ("aaaaaaaaaaaaaaaaaa.py", "../../../../../../xpy"),
        ("aaaaaaaaaaaaaaaaaa.py", "/tmp/codebox-planted."),
        ("goodd.py", "good.py\0"),
    ] {
        let (from, to) = (&from[..from.len().min(to.len())], &to[..from.len().min(to.len())]);
        let name = unique("leads");
        all.push((name.clone(), patched(&name, from, to)));
    }
    let name = unique("twins");
    all.push((name.clone(), patched(&name, "goot.py", "good.py")));
    let name = unique("link");
    let stem = format!("{}-1", name.replace('-', "_"));
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file(format!("{stem}.dist-info/METADATA"), SimpleFileOptions::default())?;
    std::io::Write::write_all(&mut zip, format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n").as_bytes())?;
    zip.add_symlink("etc", "/etc", SimpleFileOptions::default())?;
    let content = zip.finish()?.into_inner();
    all.push((name, Offered::new(format!("{stem}-py3-none-any.whl"), content)));
    // A wheel whose metadata names another package.
    let (name, other) = (unique("says"), unique("other"));
    let renamed = pure(&other, "1", &[], &[]);
    all.push((name.clone(), Offered::new(format!("{}-1-py3-none-any.whl", name.replace('-', "_")), renamed.content)));
    // A wheel that also has the metadata of another package, in the directory for modules that are installed elsewhere.
    let name = unique("twofold");
    let hidden = format!("{}-1.data/purelib/other-9.dist-info/METADATA", name.replace('-', "_"));
    all.push((name.clone(), pure(&name, "1", &[], &[(&hidden, "Metadata-Version: 2.1\nName: other\nVersion: 9\n")])));
    // A wheel whose metadata is excessively large when unpacked.
    let name = unique("wordy");
    let stem = format!("{}-1", name.replace('-', "_"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\n{}", "x".repeat(2 << 20));
    let content = archive(&[(&format!("{stem}.dist-info/METADATA"), &metadata)]);
    all.push((name, Offered::new(format!("{stem}-py3-none-any.whl"), content)));
    for (name, offered) in all {
        let index = Index::of([offered])?;
        let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
        ensure!(!said.contains("internal"), "{said}");
        let shown = kit.codebox().args(["packages", "show", &name]).run()?;
        ensure!(shown.code != Some(0), "{name} was installed: {}", shown.stdout_text());
    }
    ensure!(!std::path::Path::new("/tmp/codebox-planted.").exists());
    Ok(())
}

fn sources(kit: &Kit) -> Result<()> {
    let name = unique("source");
    let file = format!("{}-1.tar.gz", name.replace('-', "_"));
    let index = Index::of([Offered::new(file, b"not even an archive".to_vec())])?;
    let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(said.contains("has no wheel, only a source distribution") && said.contains("--build"), "{said}");
    ensure!(!index.seen().iter().any(|path| path.contains("tar.gz")), "{:?}", index.seen());
    // A hint must not recommend an option that the configuration forbids.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("codebox.toml"), "[packages]\nbuild = false\n")?;
    let job = run(kit, &index).folder(folder.path()).args(["--with", &name, "-c", "print(1)"]);
    let said = refused(job, "install_failed")?;
    ensure!(said.contains("does not allow building") && !said.contains("--build"), "{said}");
    // With `--build`, a container is required, and WebAssembly is not accepted.
    let index = Index::of([Source::of(&name, "").stated()])?;
    let said = refused(run(kit, &index).args(["--build", "--with", &name, "-c", "print(1)"]), "engine_unavailable")?;
    ensure!(said.contains("cannot build") && said.contains("container"), "{said}");
    Ok(())
}

fn no_program(kit: &Kit) -> Result<()> {
    let folder = kit.folder()?;
    let mark = folder.path().join("started");
    for program in ["python", "python3", "pip", "pip3", "uv", "npm", "node", "git", "sh"] {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\necho {program} >> {}\n", mark.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let name = unique("quiet");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let job = run(kit, &index).env("PATH", folder.path().as_os_str());
    ensure!(printed(job.args(["--with", &name, "-c", &format!("import {module}\nprint({module}.VALUE)")]))? == "7\n");
    ensure!(!mark.exists(), "{}", std::fs::read_to_string(&mark)?);
    Ok(())
}

fn slow(kit: &Kit) -> Result<()> {
    let index = Index::answering([], Manner::Slowly)?;
    let job = run(kit, &index).env("UV_HTTP_TIMEOUT", "1").env("UV_HTTP_RETRIES", "0");
    let name = unique("slow");
    let said = refused(job.args(["--with", &name, "-c", "print(1)"]), "engine_unavailable")?;
    ensure!(said.contains("timed out after"), "{said}");
    Ok(())
}

fn endless_page(kit: &Kit) -> Result<()> {
    let index = Index::answering([], Manner::Endlessly)?;
    let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
    refused(job.args(["--with", &unique("endless"), "-c", "print(1)"]), "engine_unavailable")?;
    // The bound leaves room for two buffered pages: the package's and that of the newest version.
    ensure!(index.sent() < 1 << 29, "{} bytes were taken", index.sent());
    Ok(())
}

/// Parentheses nested deeper than any stack, and conditions whose memory doubles with each pair of terms.
fn tangled(kit: &Kit) -> Result<()> {
    let deep = format!("{}os_name == 'a'{}", "(".repeat(50_000), ")".repeat(50_000));
    let pairs: Vec<String> = (0..40).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
    for condition in [deep, pairs.join(" or ")] {
        let needs = format!("x; {condition}");
        let own = [needs.as_str()];
        // Metadata from the index, from ranges of the wheel, and from the whole wheel.
        for (told, manner) in [(true, Manner::Well), (false, Manner::InParts), (false, Manner::Well)] {
            let name = unique("tangled");
            let mut offered = pure(&name, "1", if told { &[] } else { &own }, &[]);
            let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {needs}\n");
            offered.told = told.then_some(metadata);
            let index = Index::answering([offered], manner)?;
            let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
            let said = refused(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
            ensure!(said.contains("too complex") && said.contains(&name.replace('-', "_")), "{said}");
        }
        // A user's requirement is refused too, before any query.
        let typed = format!("{}; {condition}", unique("tangled"));
        let index = Index::of([])?;
        let said = refused(run(kit, &index).args(["--with", &typed, "-c", "print(1)"]), "invalid_request")?;
        ensure!(said.contains("invalid package"), "{said}");
    }
    let long = format!("x\nDescription: {}", "x".repeat(1 << 20));
    for manner in [Manner::InParts, Manner::Well] {
        let name = unique("wordy");
        let index = Index::answering([pure(&name, "1", &[&long], &[])], manner)?;
        let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
        ensure!(said.contains("too long"), "{said}");
    }
    Ok(())
}

/// All requirements are inspected, with limited concurrency.
fn many_needs(kit: &Kit) -> Result<()> {
    for (manner, most) in [(Manner::InParts, 8), (Manner::Leisurely, 2)] {
        let name = unique("many");
        let needs: Vec<String> = (0..30).map(|_| unique("one-of-many")).collect();
        let listed: Vec<&str> = needs.iter().map(String::as_str).collect();
        let others = needs.iter().map(|need| pure(need, "1", &[], &[]));
        let index = Index::answering(others.chain([pure(&name, "1", &listed, &[])]), manner)?;
        let folder = kit.folder()?;
        std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
        let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let made = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
        ensure!(made.code == Some(0), "{}", made.stderr_text());
        ensure!((1..=most).contains(&index.most_at_once()), "{manner:?}: {}", index.most_at_once());
    }
    Ok(())
}

fn local_file(kit: &Kit) -> Result<()> {
    let folder = kit.folder()?;
    let name = unique("local");
    let mut offered = pure(&name, "1", &[], &[]);
    std::fs::write(folder.path().join(&offered.file), &offered.content)?;
    offered.place = Some(format!("file://{}/{}", folder.path().display(), offered.file));
    let index = Index::of([offered])?;
    let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(said.contains("refers to file:///") && said.contains("a local file"), "{said}");
    // A local file in a lock is refused too.
    let honest = Index::of([pure(&name, "1", &[], &[])])?;
    std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
    let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", honest.address.as_str()));
    let made = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(made.code == Some(0), "{}", made.stderr_text());
    refused(run(kit, &index).folder(folder.path()).arg("main.py"), "install_failed")?;
    // A local folder that the user configures as the index is allowed; a FIFO in it does not block.
    let job = || {
        let job = without_engines(kit.run_json().env("UV_NO_INDEX", "1"));
        job.env("UV_FIND_LINKS", folder.path().display().to_string())
    };
    ensure!(printed(job().args(["--with", &name, "-c", "print(1)"]))? == "1\n");
    let piped = unique("piped");
    let pipe = folder.path().join(pure(&piped, "1", &[], &[]).file);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
    refused(job().args(["--with", &piped, "-c", "print(1)"]), "install_failed")?;
    Ok(())
}

fn slow_file(kit: &Kit) -> Result<()> {
    let name = unique("dripping");
    let index = Index::answering([pure(&name, "1", &[], &[])], Manner::SlowFiles)?;
    let job = run(kit, &index).env("UV_HTTP_TIMEOUT", "1").env("UV_HTTP_RETRIES", "0");
    refused(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    let shown = kit.codebox().args(["packages", "show", &name]).run()?;
    ensure!(shown.code != Some(0), "{}", shown.stdout_text());
    Ok(())
}

/// Link-local addresses, as clouds use for metadata, and addresses of a private network, all unassigned.
fn astray(kit: &Kit) -> Result<()> {
    for place in ["http://169.254.7.7/x", "http://[fe80::1]/x", "http://10.255.255.254/x", "http://[::ffff:a9fe:707]/x"]
    {
        for manner in [Manner::PagesTo(place), Manner::FilesTo(place)] {
            let name = unique("astray");
            let index = Index::answering([pure(&name, "1", &[], &[])], manner)?;
            let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
            let said = refused(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
            ensure!(
                said.contains("refers to") && said.contains("of this machine or its network"),
                "{manner:?}: {said}"
            );
        }
    }
    Ok(())
}

fn native(kit: &Kit) -> Result<()> {
    let name = unique("native");
    let tag = &format!("py3-none-manylinux_2_17_{}", std::env::consts::ARCH);
    let index = Index::of([wheel(&name, "1", tag, &[], &[])])?;
    let job = run(kit, &index).args(["--with", &name, "-c", "print(1)"]).run()?;
    let report = job.report()?;
    ensure!(report.kind() != "ok" && job.stdout_text().contains(&name), "{}", job.stdout_text());
    let shown = kit.codebox().args(["packages", "show", &name]).run()?;
    ensure!(shown.code != Some(0), "{}", shown.stdout_text());
    // An older pure version is not chosen instead of a native newest one.
    let old = unique("old");
    let index = Index::of([pure(&old, "1", &[], &[]), wheel(&old, "2", tag, &[], &[])])?;
    let job = run(kit, &index).args(["--with", &old, "-c", "print(1)"]).run()?;
    ensure!(job.report()?.kind() != "ok", "{}", job.stdout_text());
    let asked = format!("{old}<2");
    ensure!(printed(run(kit, &index).args(["--with", &asked, "-c", "print(1)"]))? == "1\n");
    Ok(())
}

fn printed_error(kit: &Kit) -> Result<()> {
    let name = unique("lure");
    let index = Index::of([pure(&name, "1", &[], &[])])?;
    let program = format!(
        "import sys\nprint(\"ModuleNotFoundError: No module named '{name}'\", file=sys.stderr)\nimport {}",
        name.replace('-', "_")
    );
    let ran = run(kit, &index).args(["-c", &program]).run()?;
    ensure!(ran.report()?.kind() == "guest_error", "{}", ran.stdout_text());
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

/// A requirement by URL is refused with a message of one line that names the URL once and has no colour codes.
fn address(kit: &Kit) -> Result<()> {
    let (name, other) = (unique("address"), unique("other"));
    let url = format!("http://127.0.0.1:9/{}-1-py3-none-any.whl", other.replace('-', "_"));
    let index = Index::of([pure(&name, "1", &[&format!("{other} @ {url}")], &[])])?;
    let said = refused(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(said.contains(&format!("{name} 1 requires {other} from ")), "{said}");
    ensure!(said.matches(&url).count() == 1 && !said.contains("[36m"), "{said}");
    Ok(())
}
