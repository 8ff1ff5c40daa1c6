//! Locks of scripts.

use anyhow::{Result, ensure};
use codebox_testkit::Kit;

use crate::index::{Index, pure, unique};
use crate::{Case, printed, refused, run, without_engines};

pub const CASES: &[Case] = &[("a_lock_is_kept_to_and_checked", kept_to)];

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
    // Another index has a newer version, and is not asked.
    let second = Index::of([pure(&name, "2", &[], &[(&file, "VALUE = 2\n")])])?;
    let job = || run(kit, &second).folder(folder.path());
    // The file says what; whom to ask for it does not come with the script.
    let elsewhere = Index::of([pure(&name, "1", &[], &[(&file, "VALUE = 1\n")])])?;
    let turned = written.replace(&first.address.replace("/simple", ""), &elsewhere.address.replace("/simple", ""));
    ensure!(turned != written, "{written}");
    std::fs::write(folder.path().join("main.py.lock"), turned)?;
    ensure!(printed(run(kit, &first).folder(folder.path()).arg("main.py"))? == "1\n");
    ensure!(elsewhere.seen().is_empty(), "{:?}", elsewhere.seen());
    ensure!(printed(job().arg("main.py"))? == "1\n");
    ensure!(second.seen().is_empty(), "{:?}", second.seen());
    // Other requirements than it was made for.
    std::fs::write(&script, text(&format!("{name}>=1")))?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("codebox lock"), "{said}");
    // Another content than it was made of.
    std::fs::write(&script, text(&name))?;
    let hash = written.split("sha256 = \"").nth(1).map(|rest| rest[..64].to_owned()).unwrap_or_default();
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, &"1".repeat(64)))?;
    let said = refused(run(kit, &first).folder(folder.path()).arg("main.py"), "install_failed")?;
    ensure!(said.contains("sha256"), "{said}");
    std::fs::write(folder.path().join("main.py.lock"), written.replace(&hash, "../../../../planted"))?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("is no sha256"), "{said}");
    // Another tool's.
    std::fs::write(folder.path().join("main.py.lock"), "version = 1\nrevision = 3\n[[package]]\nname = 'x'\n")?;
    let said = refused(job().arg("main.py"), "invalid_request")?;
    ensure!(said.contains("no lock of codebox's"), "{said}");
    Ok(())
}
