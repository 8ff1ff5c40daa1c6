//! Hostile indexes and archives.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use codebox_testkit::Kit;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::index::{Behaviour, Index, IndexFile, archive, pure, unique, wheel};
use crate::sdist_source::Source;
use crate::{Case, run, run_expecting_failure, run_successfully, without_engines};

pub const CASES: &[Case] = &[
    ("rejects_wrong_hash", rejects_wrong_hash),
    ("rejects_malformed_archives", rejects_malformed_archives),
    ("never_builds_sources", never_builds_sources),
    ("starts_no_host_program", starts_no_host_program),
    ("endless_index", endless_index),
    ("endless_file", endless_file),
    ("rejects_complex_requirements", rejects_complex_requirements),
    ("bounds_concurrent_requests", bounds_concurrent_requests),
    ("rejects_local_file_links", rejects_local_file_links),
    ("bounds_endless_page", bounds_endless_page),
    ("rejects_private_redirects", rejects_private_redirects),
    ("rejects_native_package_in_wasm", rejects_native_package_in_wasm),
    ("ignores_printed_errors", ignores_printed_errors),
    ("rejects_url_requirements", rejects_url_requirements),
];

fn rejects_wrong_hash(kit: &Kit) -> Result<()> {
    let name = unique("wrong");
    let mut index_file = pure(&name, "1", &[], &[]);
    index_file.announced_sha256 = "0".repeat(64);
    let index = Index::of([index_file])?;
    let output = run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(output.contains("sha256"), "{output}");
    Ok(())
}

/// Returns a wheel in which a member's name is replaced by another of the same length.
fn patch_member_name(name: &str, from: &str, to: &str) -> IndexFile {
    let IndexFile { file, mut content, .. } = pure(name, "1", &[], &[(from, "bad = 1\n"), ("good.py", "good = 1\n")]);
    for at in 0..=content.len() - from.len() {
        if content[at..].starts_with(from.as_bytes()) {
            content[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
    }
    IndexFile::new(file, content)
}

fn rejects_malformed_archives(kit: &Kit) -> Result<()> {
    let mut all = Vec::new();
    for (from, to) in [
        ("aaaaaaaaaaaaaaaaaa.py", "../../../../../../xpy"),
        ("aaaaaaaaaaaaaaaaaa.py", "/tmp/codebox-planted."),
        ("goodd.py", "good.py\0"),
    ] {
        let (from, to) = (&from[..from.len().min(to.len())], &to[..from.len().min(to.len())]);
        let name = unique("leads");
        all.push((name.clone(), patch_member_name(&name, from, to)));
    }
    let name = unique("twins");
    all.push((name.clone(), patch_member_name(&name, "goot.py", "good.py")));
    let name = unique("link");
    let stem = format!("{}-1", name.replace('-', "_"));
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file(format!("{stem}.dist-info/METADATA"), SimpleFileOptions::default())?;
    std::io::Write::write_all(&mut zip, format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n").as_bytes())?;
    zip.add_symlink("etc", "/etc", SimpleFileOptions::default())?;
    let content = zip.finish()?.into_inner();
    all.push((name, IndexFile::new(format!("{stem}-py3-none-any.whl"), content)));
    // A wheel whose metadata names another package.
    let (name, other) = (unique("misnamed"), unique("other"));
    let renamed = pure(&other, "1", &[], &[]);
    all.push((name.clone(), IndexFile::new(format!("{}-1-py3-none-any.whl", name.replace('-', "_")), renamed.content)));
    // A wheel that also has the metadata of another package, in the directory for modules that are installed elsewhere.
    let name = unique("twofold");
    let hidden = format!("{}-1.data/purelib/other-9.dist-info/METADATA", name.replace('-', "_"));
    all.push((name.clone(), pure(&name, "1", &[], &[(&hidden, "Metadata-Version: 2.1\nName: other\nVersion: 9\n")])));
    // A wheel whose metadata is excessively large when unpacked.
    let name = unique("wordy");
    let stem = format!("{}-1", name.replace('-', "_"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\n{}", "x".repeat(2 << 20));
    let content = archive(&[(&format!("{stem}.dist-info/METADATA"), &metadata)]);
    all.push((name, IndexFile::new(format!("{stem}-py3-none-any.whl"), content)));
    for (name, index_file) in all {
        let index = Index::of([index_file])?;
        let output =
            run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
        ensure!(!output.contains("internal"), "{output}");
        let shown = kit.codebox().args(["packages", "show", &name]).run()?;
        ensure!(shown.code != Some(0), "{name} was installed: {}", shown.stdout_text());
    }
    ensure!(!std::path::Path::new("/tmp/codebox-planted.").exists());
    Ok(())
}

fn never_builds_sources(kit: &Kit) -> Result<()> {
    let name = unique("source");
    let file = format!("{}-1.tar.gz", name.replace('-', "_"));
    let index = Index::of([IndexFile::new(file, b"not even an archive".to_vec())])?;
    let output = run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(output.contains("has no wheel, only a source distribution") && output.contains("--build"), "{output}");
    ensure!(!index.requests().iter().any(|path| path.contains("tar.gz")), "{:?}", index.requests());
    // A hint must not recommend an option that the configuration forbids.
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("codebox.toml"), "[packages]\nbuild = false\n")?;
    let job = run(kit, &index).folder(folder.path()).args(["--with", &name, "-c", "print(1)"]);
    let output = run_expecting_failure(job, "install_failed")?;
    ensure!(output.contains("does not allow building") && !output.contains("--build"), "{output}");
    // With `--build`, a container is required, and WebAssembly is not accepted.
    let index = Index::of([Source::of(&name, "").with_static_metadata()])?;
    let output = run_expecting_failure(
        run(kit, &index).args(["--build", "--with", &name, "-c", "print(1)"]),
        "engine_unavailable",
    )?;
    ensure!(output.contains("cannot build") && output.contains("container"), "{output}");
    Ok(())
}

fn starts_no_host_program(kit: &Kit) -> Result<()> {
    let folder = kit.folder()?;
    let marker = folder.path().join("started");
    for program in ["python", "python3", "pip", "pip3", "uv", "npm", "node", "git", "sh"] {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\necho {program} >> {}\n", marker.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let name = unique("quiet");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    let job = run(kit, &index).env("PATH", folder.path().as_os_str());
    ensure!(
        run_successfully(job.args(["--with", &name, "-c", &format!("import {module}\nprint({module}.VALUE)")]))?
            == "7\n"
    );
    ensure!(!marker.exists(), "{}", std::fs::read_to_string(&marker)?);
    Ok(())
}

fn endless_index(kit: &Kit) -> Result<()> {
    let index = Index::with_behaviour([], Behaviour::Dripping)?;
    let job = run(kit, &index).env("UV_HTTP_TIMEOUT", "1").env("UV_HTTP_RETRIES", "0");
    let name = unique("slow");
    let output = run_expecting_failure(job.args(["--with", &name, "-c", "print(1)"]), "engine_unavailable")?;
    ensure!(output.contains("timed out after"), "{output}");
    Ok(())
}

fn bounds_endless_page(kit: &Kit) -> Result<()> {
    let index = Index::with_behaviour([], Behaviour::EndlessPages)?;
    let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
    run_expecting_failure(job.args(["--with", &unique("endless"), "-c", "print(1)"]), "engine_unavailable")?;
    // The bound allows for two buffered pages: the package's and that of the newest version.
    ensure!(index.bytes_sent() < 1 << 29, "{} bytes were sent", index.bytes_sent());
    Ok(())
}

/// Parentheses nested deeper than any stack, and conditions whose memory doubles with each pair of terms.
fn rejects_complex_requirements(kit: &Kit) -> Result<()> {
    let deep = format!("{}os_name == 'a'{}", "(".repeat(50_000), ")".repeat(50_000));
    let pairs: Vec<String> = (0..40).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
    for condition in [deep, pairs.join(" or ")] {
        let needs = format!("x; {condition}");
        let own = [needs.as_str()];
        // Metadata from the index, from ranges of the wheel, and from the whole wheel.
        for (core_metadata, behaviour) in
            [(true, Behaviour::Correct), (false, Behaviour::Ranges), (false, Behaviour::Correct)]
        {
            let name = unique("tangled");
            let mut index_file = pure(&name, "1", if core_metadata { &[] } else { &own }, &[]);
            let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {needs}\n");
            index_file.core_metadata = core_metadata.then_some(metadata);
            let index = Index::with_behaviour([index_file], behaviour)?;
            let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
            let output = run_expecting_failure(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
            ensure!(output.contains("too complex") && output.contains(&name.replace('-', "_")), "{output}");
        }
        // A user's requirement is refused too, before any query.
        let requirement = format!("{}; {condition}", unique("tangled"));
        let index = Index::of([])?;
        let output = run_expecting_failure(
            run(kit, &index).args(["--with", &requirement, "-c", "print(1)"]),
            "invalid_request",
        )?;
        ensure!(output.contains("invalid package"), "{output}");
    }
    let long = format!("x\nDescription: {}", "x".repeat(1 << 20));
    for behaviour in [Behaviour::Ranges, Behaviour::Correct] {
        let name = unique("wordy");
        let index = Index::with_behaviour([pure(&name, "1", &[&long], &[])], behaviour)?;
        let output =
            run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
        ensure!(output.contains("too long"), "{output}");
    }
    Ok(())
}

/// All requirements are inspected, with limited concurrency.
fn bounds_concurrent_requests(kit: &Kit) -> Result<()> {
    for (behaviour, max) in [(Behaviour::Ranges, 8), (Behaviour::Delayed, 2)] {
        let name = unique("many");
        let needs: Vec<String> = (0..30).map(|_| unique("one-of-many")).collect();
        let listed: Vec<&str> = needs.iter().map(String::as_str).collect();
        let others = needs.iter().map(|need| pure(need, "1", &[], &[]));
        let index = Index::with_behaviour(others.chain([pure(&name, "1", &listed, &[])]), behaviour)?;
        let folder = kit.folder()?;
        std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
        let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let lock_result = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
        ensure!(lock_result.code == Some(0), "{}", lock_result.stderr_text());
        ensure!((1..=max).contains(&index.max_concurrent()), "{behaviour:?}: {}", index.max_concurrent());
    }
    Ok(())
}

fn rejects_local_file_links(kit: &Kit) -> Result<()> {
    let folder = kit.folder()?;
    let name = unique("local");
    let mut index_file = pure(&name, "1", &[], &[]);
    std::fs::write(folder.path().join(&index_file.file), &index_file.content)?;
    index_file.external_url = Some(format!("file://{}/{}", folder.path().display(), index_file.file));
    let index = Index::of([index_file])?;
    let output = run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(output.contains("refers to file:///") && output.contains("a local file"), "{output}");
    // A local file in a lock is refused too.
    let valid_index = Index::of([pure(&name, "1", &[], &[])])?;
    std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
    let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", valid_index.address.as_str()));
    let lock_result = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(lock_result.code == Some(0), "{}", lock_result.stderr_text());
    run_expecting_failure(run(kit, &index).folder(folder.path()).arg("main.py"), "install_failed")?;
    // A local folder that the user configures as the index is allowed; a FIFO in it does not block.
    let job = || {
        let job = without_engines(kit.run_json().env("UV_NO_INDEX", "1"));
        job.env("UV_FIND_LINKS", folder.path().display().to_string())
    };
    ensure!(run_successfully(job().args(["--with", &name, "-c", "print(1)"]))? == "1\n");
    let piped = unique("piped");
    let pipe = folder.path().join(pure(&piped, "1", &[], &[]).file);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
    run_expecting_failure(job().args(["--with", &piped, "-c", "print(1)"]), "install_failed")?;
    Ok(())
}

fn endless_file(kit: &Kit) -> Result<()> {
    let name = unique("dripping");
    let index = Index::with_behaviour([pure(&name, "1", &[], &[])], Behaviour::DrippingFiles)?;
    let job = run(kit, &index).env("UV_HTTP_TIMEOUT", "1").env("UV_HTTP_RETRIES", "0");
    run_expecting_failure(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    let shown = kit.codebox().args(["packages", "show", &name]).run()?;
    ensure!(shown.code != Some(0), "{}", shown.stdout_text());
    Ok(())
}

/// Link-local addresses, as clouds use for metadata, and addresses of a private network, all unassigned.
fn rejects_private_redirects(kit: &Kit) -> Result<()> {
    for external_url in
        ["http://169.254.7.7/x", "http://[fe80::1]/x", "http://10.255.255.254/x", "http://[::ffff:a9fe:707]/x"]
    {
        for behaviour in [Behaviour::RedirectPages(external_url), Behaviour::RedirectFiles(external_url)] {
            let name = unique("redirected");
            let index = Index::with_behaviour([pure(&name, "1", &[], &[])], behaviour)?;
            let job = run(kit, &index).env("UV_HTTP_RETRIES", "0");
            let output = run_expecting_failure(job.args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
            ensure!(
                output.contains("refers to") && output.contains("of this machine or its network"),
                "{behaviour:?}: {output}"
            );
        }
    }
    Ok(())
}

fn rejects_native_package_in_wasm(kit: &Kit) -> Result<()> {
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
    let constrained = format!("{old}<2");
    ensure!(run_successfully(run(kit, &index).args(["--with", &constrained, "-c", "print(1)"]))? == "1\n");
    Ok(())
}

fn ignores_printed_errors(kit: &Kit) -> Result<()> {
    let name = unique("printed");
    let index = Index::of([pure(&name, "1", &[], &[])])?;
    let program = format!(
        "import sys\nprint(\"ModuleNotFoundError: No module named '{name}'\", file=sys.stderr)\nimport {}",
        name.replace('-', "_")
    );
    let result = run(kit, &index).args(["-c", &program]).run()?;
    ensure!(result.report()?.kind() == "guest_error", "{}", result.stdout_text());
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

/// A requirement by URL is refused with a message of one line that names the URL once and has no colour codes.
fn rejects_url_requirements(kit: &Kit) -> Result<()> {
    let (name, other) = (unique("address"), unique("other"));
    let url = format!("http://127.0.0.1:9/{}-1-py3-none-any.whl", other.replace('-', "_"));
    let index = Index::of([pure(&name, "1", &[&format!("{other} @ {url}")], &[])])?;
    let output = run_expecting_failure(run(kit, &index).args(["--with", &name, "-c", "print(1)"]), "install_failed")?;
    ensure!(output.contains(&format!("{name} 1 requires {other} from ")), "{output}");
    ensure!(output.matches(&url).count() == 1 && !output.contains("[36m"), "{output}");
    Ok(())
}
