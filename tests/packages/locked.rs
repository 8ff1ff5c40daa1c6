//! Lock files of scripts.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Behaviour, Index, hex, pure, unique};
use crate::{Case, run, run_expecting_failure, run_successfully, without_engines};

pub const CASES: &[Case] = &[
    ("checks_lock", checks_lock),
    ("rejects_substituted_packages", rejects_substituted_packages),
    ("reads_wheel_metadata_by_range", reads_wheel_metadata_by_range),
    ("requires_regular_file", requires_regular_file),
    ("reports_unused_lock", reports_unused_lock),
    ("locks_listed_hashes", locks_listed_hashes),
];

fn checks_lock(kit: &Kit) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let file = format!("{module}.py");
    let first = Index::of([pure(&name, "1", &[], &[(&file, "VALUE = 1\n")])])?;
    let folder = kit.folder()?;
    let script = folder.path().join("main.py");
    let text = |need: &str| {
        format!("# /// script\n# dependencies = ['{need}']\n# ///\nimport {module}\nprint({module}.VALUE)\n")
    };
    std::fs::write(&script, text(&name))?;
    let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", first.address.as_str()));
    let result = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(result.code == Some(0), "{}", result.stderr_text());
    let written = std::fs::read_to_string(folder.path().join("main.py.lock"))?;
    ensure!(written.contains(&name) && written.contains("wasm-3.15"), "{written}");
    // Another index with a newer version is not queried.
    let second = Index::of([pure(&name, "2", &[], &[(&file, "VALUE = 2\n")])])?;
    let job = || run(kit, &second).folder(folder.path());
    // The lock determines the packages but not the index: its URLs are ignored.
    let elsewhere = Index::of([pure(&name, "1", &[], &[(&file, "VALUE = 1\n")])])?;
    let redirected = written.replace(&first.address.replace("/simple", ""), &elsewhere.address.replace("/simple", ""));
    ensure!(redirected != written, "{written}");
    std::fs::write(folder.path().join("main.py.lock"), redirected)?;
    ensure!(run_successfully(run(kit, &first).folder(folder.path()).arg("main.py"))? == "1\n");
    ensure!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
    ensure!(run_successfully(job().arg("main.py"))? == "1\n");
    ensure!(second.requests().is_empty(), "{:?}", second.requests());
    // The script's requirements differ from those of the lock.
    std::fs::write(&script, text(&format!("{name}>=1")))?;
    let output = run_expecting_failure(job().arg("main.py"), "invalid_request")?;
    ensure!(output.contains("codebox lock"), "{output}");
    // The file's content differs from the locked digest.
    std::fs::write(&script, text(&name))?;
    let hash = written.split("sha256 = \"").nth(1).map(|rest| rest[..64].to_owned()).unwrap_or_default();
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, &"1".repeat(64)))?;
    let output = run_expecting_failure(run(kit, &first).folder(folder.path()).arg("main.py"), "install_failed")?;
    ensure!(output.contains("sha256") && output.contains("main.py.lock with codebox lock"), "{output}");
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, "../../../../planted"))?;
    let output = run_expecting_failure(job().arg("main.py"), "invalid_request")?;
    ensure!(output.contains("invalid sha256"), "{output}");
    // The lock is not text.
    std::fs::write(folder.path().join("main.py.lock"), b"\xff\xfe")?;
    let output = run_expecting_failure(job().arg("main.py"), "invalid_request")?;
    ensure!(output.contains("main.py.lock: not UTF-8 text") && output.contains("save it as UTF-8"), "{output}");
    // The lock belongs to another tool.
    std::fs::write(folder.path().join("main.py.lock"), "version = 1\nrevision = 3\n[[package]]\nname = 'x'\n")?;
    let output = run_expecting_failure(job().arg("main.py"), "invalid_request")?;
    ensure!(output.contains("not a codebox lock file"), "{output}");
    Ok(())
}

fn reads_wheel_metadata_by_range(kit: &Kit) -> Result<()> {
    let (name, need) = (unique("parts"), unique("need"));
    let noise: String = (0..60_000_u32).map(|n| hex(&n.to_le_bytes())).collect();
    let large = pure(&name, "1", &[&need], &[("noise.txt", &noise)]);
    ensure!(large.content.len() > 1 << 20);
    let index = Index::with_behaviour([large, pure(&need, "3", &[], &[])], Behaviour::Ranges)?;
    let folder = kit.folder()?;
    let metadata_dir = kit.home().join("cache/packages/index/codebox-metadata-v1");
    let cached_metadata = || -> Result<Option<std::path::PathBuf>> {
        for entry in std::fs::read_dir(&metadata_dir)? {
            let path = entry?.path();
            // Other processes add their files meanwhile by renaming.
            if std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("Name: {name}\n"))) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    };
    let mut file_requests = None;
    for script in ["one.py", "two.py", "three.py"] {
        if script == "three.py" {
            // A damaged cache entry is fetched again.
            let cached_metadata = cached_metadata()?.context("stored metadata")?;
            std::fs::write(&cached_metadata, "Metadata-Version: 2.1\n")?;
            file_requests = None;
        }
        std::fs::write(folder.path().join(script), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
        let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let result = lock.folder(folder.path()).args(["lock", script]).run()?;
        ensure!(result.code == Some(0), "{}", result.stderr_text());
        let written = std::fs::read_to_string(folder.path().join(format!("{script}.lock")))?;
        ensure!(written.contains(&name) && written.contains(&need), "{written}");
        // Cached metadata is not fetched again.
        let files = index.requests().iter().filter(|path| path.starts_with("/files/")).count();
        ensure!(*file_requests.get_or_insert(files) == files, "{:?}", index.requests());
        ensure!(index.bytes_sent() < 400_000, "{}", index.bytes_sent());
    }
    ensure!(cached_metadata()?.is_some());
    Ok(())
}

/// The author of a program also writes its lock: a lock without the requested packages is refused.
fn rejects_substituted_packages(kit: &Kit) -> Result<()> {
    let (good, evil) = (unique("good"), unique("evil"));
    let module = good.replace('-', "_");
    let file = format!("{module}.py");
    let index = Index::of([
        pure(&good, "2", &[], &[(&file, "VALUE = 2\n")]),
        pure(&evil, "1", &[], &[(&file, "VALUE = 'evil'\n")]),
    ])?;
    let folder = kit.folder()?;
    let lock_at = folder.path().join("main.py.lock");
    let script = |need: &str| {
        format!("# /// script\n# dependencies = ['{need}']\n# ///\nimport {module}\nprint({module}.VALUE)\n")
    };
    let lock = |need: &str| -> Result<String> {
        std::fs::write(folder.path().join("main.py"), script(need))?;
        let _ = std::fs::remove_file(&lock_at);
        let result = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let result = result.folder(folder.path()).args(["lock", "main.py"]).run()?;
        ensure!(result.code == Some(0), "{}", result.stderr_text());
        Ok(std::fs::read_to_string(&lock_at)?)
    };
    let job = || run(kit, &index).folder(folder.path()).arg("main.py");
    let evil_lock = lock(&evil)?;
    // The run puts the package's content into the cache.
    ensure!(run_successfully(job())? == "evil\n");
    let good_lock = lock(&format!("{good}>=2"))?;
    ensure!(run_successfully(job())? == "2\n");
    let hash = |text: &str| text.split("sha256 = \"").nth(1).map(|rest| rest[..64].to_owned()).unwrap_or_default();
    let wheels = |text: &str| text[text.find("[[").unwrap_or(text.len())..].to_owned();
    let first = wheels(&good_lock).split("\n[").next().unwrap_or_default().to_owned();
    ensure!(hash(&good_lock) != hash(&evil_lock) && !wheels(&good_lock).is_empty(), "{good_lock}");
    for (planted, kind, expected) in [
        (good_lock.replace(&wheels(&good_lock), &wheels(&evil_lock)), "invalid_request", "no package in it satisfies"),
        (good_lock.replace("version = \"2\"", "version = \"1\""), "invalid_request", "no package in it satisfies"),
        (good_lock.replace(&hash(&good_lock), &hash(&evil_lock)), "install_failed", "its metadata is for package"),
        (
            good_lock.replace("version = \"2\"", "version = \"3\"").replace("-2-py3", "-3-py3"),
            "install_failed",
            "its metadata is for version",
        ),
        (good_lock.replace("version = \"2\"", "version = \"3\""), "invalid_request", "does not belong to"),
        (good_lock.replacen(&first, &format!("{first}\n{first}"), 1), "invalid_request", "twice"),
    ] {
        ensure!(planted != good_lock, "{good_lock}");
        std::fs::write(&lock_at, &planted)?;
        let output = run_expecting_failure(job(), kind)?;
        ensure!(output.contains(expected) && output.contains("main.py.lock"), "{expected}: {output}\n{planted}");
    }
    // The list of allowed packages applies to locked packages too.
    let target = good_lock.split("[target.").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let more = format!(
        "\n[[target.{target}.wheels]]\nname = '{evil}'\nversion = '1'\nfile = '{}-1-py3-none-any.whl'\nurl = ''\n\
         sha256 = '{}'\n",
        evil.replace('-', "_"),
        hash(&evil_lock)
    );
    std::fs::write(&lock_at, good_lock.replacen("\n[[", &format!("{more}\n[["), 1))?;
    std::fs::write(folder.path().join("codebox.toml"), format!("[packages]\nallow = ['{good}']\n"))?;
    let output = run_expecting_failure(job(), "denied")?;
    ensure!(output.contains(&evil), "{output}");
    std::fs::write(&lock_at, good_lock)?;
    ensure!(run_successfully(job())? == "2\n");
    Ok(())
}

/// A link in a program's directory is neither followed for writing nor for reading a lock.
fn requires_regular_file(kit: &Kit) -> Result<()> {
    let name = unique("linked");
    let index = Index::of([pure(&name, "1", &[], &[("linked_module.py", "")])])?;
    let folder = kit.folder()?;
    let (script, lock) = (folder.path().join("main.py"), folder.path().join("main.py.lock"));
    std::fs::write(&script, format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
    let canary = folder.path().join("canary");
    std::fs::write(&canary, "mine")?;
    let create_lock = || {
        let result = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        result.folder(folder.path()).args(["lock", "main.py"]).run()
    };
    for to in ["canary", "new"] {
        std::os::unix::fs::symlink(to, &lock)?;
        let result = create_lock()?;
        ensure!(result.code == Some(125) && result.stderr_text().contains("regular file"), "{}", result.stderr_text());
        let output = run_expecting_failure(run(kit, &index).folder(folder.path()).arg("main.py"), "invalid_request")?;
        ensure!(output.contains("regular file"), "{output}");
        std::fs::remove_file(&lock)?;
    }
    ensure!(std::fs::read_to_string(&canary)? == "mine" && !folder.path().join("new").exists());
    std::fs::create_dir(&lock)?;
    run_expecting_failure(run(kit, &index).folder(folder.path()).arg("main.py"), "invalid_request")?;
    std::fs::remove_dir(&lock)?;
    ensure!(create_lock()?.code == Some(0) && std::fs::symlink_metadata(&lock)?.is_file());
    Ok(())
}

fn locks_listed_hashes(kit: &Kit) -> Result<()> {
    let name = unique("hashed");
    let index_file = pure(&name, "1", &[], &[("hashed_module.py", "")]);
    let index = Index::of([index_file.clone()])?;
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), "print(1)\n")?;
    let zeros = "0".repeat(64);
    let create_lock = |listed: &str| {
        std::fs::write(folder.path().join("listed.txt"), listed)?;
        let result = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        result.folder(folder.path()).args(["lock", "main.py", "-r", "listed.txt"]).run()
    };
    for (listed, expected) in [
        (format!("{name} --hash=sha256:{zeros}\n"), "none of the hashes"),
        (format!("six --hash=sha256:{zeros}\n"), "is built in"),
    ] {
        let result = create_lock(&listed)?;
        ensure!(
            result.code == Some(125) && result.stderr_text().contains(expected),
            "{listed} {}",
            result.stderr_text()
        );
        ensure!(!folder.path().join("main.py.lock").exists(), "{listed}");
    }
    let result = create_lock(&format!("{name} --hash=sha256:{zeros} --hash=sha256:{}\n", index_file.announced_sha256))?;
    ensure!(result.code == Some(0), "{}", result.stderr_text());
    Ok(())
}

fn reports_unused_lock(kit: &Kit) -> Result<()> {
    let name = unique("unrequested");
    let index = Index::of([pure(&name, "1", &[], &[("unrequested_module.py", "")])])?;
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), "print(1)\n")?;
    let result = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
    let result = result.folder(folder.path()).args(["lock", "main.py", "--with", &name]).run()?;
    ensure!(result.code == Some(0), "{}", result.stderr_text());
    let job = || run(kit, &index).folder(folder.path());
    let output = run_expecting_failure(job().arg("main.py"), "invalid_request")?;
    let expected = format!("main.py.lock was created for {name}, but no packages are requested");
    ensure!(
        output.contains(&expected) && output.contains(&format!("--with {name}, or remove the lock file")),
        "{output}"
    );
    ensure!(run_successfully(job().args(["--with", &name, "main.py"]))? == "1\n");
    // A file of that name without codebox's format is ignored.
    std::fs::write(folder.path().join("main.py.lock"), "")?;
    ensure!(run_successfully(job().arg("main.py"))? == "1\n");
    Ok(())
}
