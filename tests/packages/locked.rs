//! Lock files of scripts.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, Manner, hex, pure, unique};
use crate::{Case, printed, refused, run, without_engines};

pub const CASES: &[Case] = &[
    ("a_lock_is_kept_to_and_checked", kept_to),
    ("a_lock_gives_no_package_another_name", called_otherwise),
    ("a_lock_takes_no_more_of_a_wheel_than_what_it_needs", in_parts),
    ("a_lock_is_a_plain_file", plain_file),
    ("a_lock_of_what_is_not_asked_for_is_not_passed_over", unasked),
    ("a_lock_has_what_is_listed_by_its_hash_or_is_not_written", hashed),
];

fn kept_to(kit: &Kit) -> Result<()> {
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
    let made = lock.folder(folder.path()).args(["lock", "main.py"]).run()?;
    ensure!(made.code == Some(0), "{}", made.stderr_text());
    let written = std::fs::read_to_string(folder.path().join("main.py.lock"))?;
    ensure!(written.contains(&name) && written.contains("wasm-3.15"), "{written}");
    // Another index with a newer version is not queried.
    let second = Index::of([pure(&name, "2", &[], &[(&file, "VALUE = 2\n")])])?;
    let job = || run(kit, &second).folder(folder.path());
    // The lock determines the packages but not the index: its URLs are ignored.
    let elsewhere = Index::of([pure(&name, "1", &[], &[(&file, "VALUE = 1\n")])])?;
    let turned = written.replace(&first.address.replace("/simple", ""), &elsewhere.address.replace("/simple", ""));
    ensure!(turned != written, "{written}");
    std::fs::write(folder.path().join("main.py.lock"), turned)?;
    ensure!(printed(run(kit, &first).folder(folder.path()).arg("main.py"))? == "1\n");
    ensure!(elsewhere.seen().is_empty(), "{:?}", elsewhere.seen());
    ensure!(printed(job().arg("main.py"))? == "1\n");
    ensure!(second.seen().is_empty(), "{:?}", second.seen());
    // The script's requirements differ from those of the lock.
    std::fs::write(&script, text(&format!("{name}>=1")))?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("codebox lock"), "{said}");
    // The file's content differs from the locked digest.
    std::fs::write(&script, text(&name))?;
    let hash = written.split("sha256 = \"").nth(1).map(|rest| rest[..64].to_owned()).unwrap_or_default();
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, &"1".repeat(64)))?;
    let said = refused(run(kit, &first).folder(folder.path()).arg("main.py"), "install_failed")?;
    ensure!(said.contains("sha256") && said.contains("main.py.lock with codebox lock"), "{said}");
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, "../../../../planted"))?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("invalid sha256"), "{said}");
    // The lock is not text.
    std::fs::write(folder.path().join("main.py.lock"), b"\xff\xfe")?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("main.py.lock: not UTF-8 text") && said.contains("save it as UTF-8"), "{said}");
    // The lock belongs to another tool.
    std::fs::write(folder.path().join("main.py.lock"), "version = 1\nrevision = 3\n[[package]]\nname = 'x'\n")?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("not a codebox lock file"), "{said}");
    Ok(())
}

fn in_parts(kit: &Kit) -> Result<()> {
    let (name, need) = (unique("parts"), unique("need"));
    let noise: String = (0..60_000_u32).map(|n| hex(&n.to_le_bytes())).collect();
    let large = pure(&name, "1", &[&need], &[("noise.txt", &noise)]);
    ensure!(large.content.len() > 1 << 20);
    let index = Index::answering([large, pure(&need, "3", &[], &[])], Manner::InParts)?;
    let folder = kit.folder()?;
    let kept = kit.home().join("cache/packages/index/codebox-metadata-v1");
    let own = || -> Result<Option<std::path::PathBuf>> {
        for entry in std::fs::read_dir(&kept)? {
            let path = entry?.path();
            // Other processes add their files meanwhile by renaming.
            if std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("Name: {name}\n"))) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    };
    let mut asked = None;
    for script in ["one.py", "two.py", "three.py"] {
        if script == "three.py" {
            // A damaged cache entry is fetched again.
            let own = own()?.context("what is kept of it")?;
            std::fs::write(&own, "Metadata-Version: 2.1\n")?;
            asked = None;
        }
        std::fs::write(folder.path().join(script), format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
        let lock = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let made = lock.folder(folder.path()).args(["lock", script]).run()?;
        ensure!(made.code == Some(0), "{}", made.stderr_text());
        let written = std::fs::read_to_string(folder.path().join(format!("{script}.lock")))?;
        ensure!(written.contains(&name) && written.contains(&need), "{written}");
        // Cached metadata is not fetched again.
        let files = index.seen().iter().filter(|path| path.starts_with("/files/")).count();
        ensure!(*asked.get_or_insert(files) == files, "{:?}", index.seen());
        ensure!(index.sent() < 400_000, "{}", index.sent());
    }
    ensure!(own()?.is_some());
    Ok(())
}

/// The author of a program also writes its lock: a lock without the requested packages is refused.
fn called_otherwise(kit: &Kit) -> Result<()> {
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
        let made = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        let made = made.folder(folder.path()).args(["lock", "main.py"]).run()?;
        ensure!(made.code == Some(0), "{}", made.stderr_text());
        Ok(std::fs::read_to_string(&lock_at)?)
    };
    let job = || run(kit, &index).folder(folder.path()).arg("main.py");
    let of_evil = lock(&evil)?;
    // The run puts the package's content into the cache.
    ensure!(printed(job())? == "evil\n");
    let of_good = lock(&format!("{good}>=2"))?;
    ensure!(printed(job())? == "2\n");
    let hash = |text: &str| text.split("sha256 = \"").nth(1).map(|rest| rest[..64].to_owned()).unwrap_or_default();
    let wheels = |text: &str| text[text.find("[[").unwrap_or(text.len())..].to_owned();
    let first = wheels(&of_good).split("\n[").next().unwrap_or_default().to_owned();
    ensure!(hash(&of_good) != hash(&of_evil) && !wheels(&of_good).is_empty(), "{of_good}");
    for (planted, kind, told) in [
        (of_good.replace(&wheels(&of_good), &wheels(&of_evil)), "invalid_request", "no package in it satisfies"),
        (of_good.replace("version = \"2\"", "version = \"1\""), "invalid_request", "no package in it satisfies"),
        (of_good.replace(&hash(&of_good), &hash(&of_evil)), "install_failed", "its metadata is for package"),
        (
            of_good.replace("version = \"2\"", "version = \"3\"").replace("-2-py3", "-3-py3"),
            "install_failed",
            "its metadata is for version",
        ),
        (of_good.replace("version = \"2\"", "version = \"3\""), "invalid_request", "does not belong to"),
        (of_good.replacen(&first, &format!("{first}\n{first}"), 1), "invalid_request", "twice"),
    ] {
        ensure!(planted != of_good, "{of_good}");
        std::fs::write(&lock_at, &planted)?;
        let said = refused(job(), kind)?;
        ensure!(said.contains(told) && said.contains("main.py.lock"), "{told}: {said}\n{planted}");
    }
    // The list of allowed packages applies to locked packages too.
    let target = of_good.split("[target.").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let more = format!(
        "\n[[target.{target}.wheels]]\nname = '{evil}'\nversion = '1'\nfile = '{}-1-py3-none-any.whl'\nurl = ''\n\
         sha256 = '{}'\n",
        evil.replace('-', "_"),
        hash(&of_evil)
    );
    std::fs::write(&lock_at, of_good.replacen("\n[[", &format!("{more}\n[["), 1))?;
    std::fs::write(folder.path().join("codebox.toml"), format!("[packages]\nallow = ['{good}']\n"))?;
    let said = refused(job(), "denied")?;
    ensure!(said.contains(&evil), "{said}");
    std::fs::write(&lock_at, of_good)?;
    ensure!(printed(job())? == "2\n");
    Ok(())
}

/// A link in a program's directory is neither followed for writing nor for reading a lock.
fn plain_file(kit: &Kit) -> Result<()> {
    let name = unique("linked");
    let index = Index::of([pure(&name, "1", &[], &[("linked_module.py", "")])])?;
    let folder = kit.folder()?;
    let (script, lock) = (folder.path().join("main.py"), folder.path().join("main.py.lock"));
    std::fs::write(&script, format!("# /// script\n# dependencies = ['{name}']\n# ///\n"))?;
    let canary = folder.path().join("canary");
    std::fs::write(&canary, "mine")?;
    let make = || {
        let made = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        made.folder(folder.path()).args(["lock", "main.py"]).run()
    };
    for to in ["canary", "new"] {
        std::os::unix::fs::symlink(to, &lock)?;
        let made = make()?;
        ensure!(made.code == Some(125) && made.stderr_text().contains("regular file"), "{}", made.stderr_text());
        let said = refused(run(kit, &index).folder(folder.path()).arg("main.py"), "invalid_request")?;
        ensure!(said.contains("regular file"), "{said}");
        std::fs::remove_file(&lock)?;
    }
    ensure!(std::fs::read_to_string(&canary)? == "mine" && !folder.path().join("new").exists());
    std::fs::create_dir(&lock)?;
    refused(run(kit, &index).folder(folder.path()).arg("main.py"), "invalid_request")?;
    std::fs::remove_dir(&lock)?;
    ensure!(make()?.code == Some(0) && std::fs::symlink_metadata(&lock)?.is_file());
    Ok(())
}

fn hashed(kit: &Kit) -> Result<()> {
    let name = unique("hashed");
    let offered = pure(&name, "1", &[], &[("hashed_module.py", "")]);
    let index = Index::of([offered.clone()])?;
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), "print(1)\n")?;
    let zeros = "0".repeat(64);
    let make = |listed: &str| {
        std::fs::write(folder.path().join("listed.txt"), listed)?;
        let made = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
        made.folder(folder.path()).args(["lock", "main.py", "-r", "listed.txt"]).run()
    };
    for (listed, told) in [
        (format!("{name} --hash=sha256:{zeros}\n"), "none of the hashes"),
        (format!("six --hash=sha256:{zeros}\n"), "is built in"),
    ] {
        let made = make(&listed)?;
        ensure!(made.code == Some(125) && made.stderr_text().contains(told), "{listed} {}", made.stderr_text());
        ensure!(!folder.path().join("main.py.lock").exists(), "{listed}");
    }
    let made = make(&format!("{name} --hash=sha256:{zeros} --hash=sha256:{}\n", offered.announced))?;
    ensure!(made.code == Some(0), "{}", made.stderr_text());
    Ok(())
}

fn unasked(kit: &Kit) -> Result<()> {
    let name = unique("unasked");
    let index = Index::of([pure(&name, "1", &[], &[("unasked_module.py", "")])])?;
    let folder = kit.folder()?;
    std::fs::write(folder.path().join("main.py"), "print(1)\n")?;
    let made = without_engines(kit.codebox().env("UV_DEFAULT_INDEX", index.address.as_str()));
    let made = made.folder(folder.path()).args(["lock", "main.py", "--with", &name]).run()?;
    ensure!(made.code == Some(0), "{}", made.stderr_text());
    let job = || run(kit, &index).folder(folder.path());
    let said = refused(job().arg("main.py"), "invalid_request")?;
    let told = format!("main.py.lock was created for {name}, but no packages are requested");
    ensure!(said.contains(&told) && said.contains(&format!("--with {name}, or remove the lock file")), "{said}");
    ensure!(printed(job().args(["--with", &name, "main.py"]))? == "1\n");
    // A file of that name without codebox's format is ignored.
    std::fs::write(folder.path().join("main.py.lock"), "")?;
    ensure!(printed(job().arg("main.py"))? == "1\n");
    Ok(())
}
