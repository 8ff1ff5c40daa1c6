//! Images that differ: the resolution for one image does not apply to runs in another.

use anyhow::{Result, ensure};
use codebox_testkit::{BASE_IMAGE, engine_says};

use super::{Case, Ground};
use crate::built::Source;
use crate::index::{Index, pure, unique, wheel};
use crate::{printed, refused};

pub(super) const CASES: &[Case] = &[
    ("what_was_chosen_for_one_c_library_is_not_another_s", c_library),
    ("what_one_image_s_build_needs_is_not_another_s", needs),
    ("a_lock_for_a_named_image_has_what_is_built_in_it", locked),
];

/// File that makes Python report an old C library.
const OLD: (&str, &str) =
    ("/usr/local/lib/python3.11/dist-packages/old.pth", "import os; os.confstr = lambda name: 'glibc 2.17'\n");

/// File that only makes an image different from others.
const MARKER: (&str, &str) = ("/marker", "");

/// Test image with one more file; removed when dropped.
struct Image<'g> {
    ground: &'g Ground,
    name: String,
}

impl<'g> Image<'g> {
    fn with(ground: &'g Ground, (place, text): (&str, &str)) -> Result<Self> {
        let folder = ground.kit.folder()?;
        let file = folder.path().join("file");
        std::fs::write(&file, text)?;
        let says = |args: &[&str]| engine_says(ground.engine, args);
        let made = Self { ground, name: format!("localhost/{}:1", unique("image")) };
        let container = says(&["create", BASE_IMAGE, "true"])?;
        let copied = says(&["cp", &file.display().to_string(), &format!("{container}:{place}")]);
        let committed = copied.and_then(|_| says(&["commit", &container, &made.name]));
        says(&["rm", "--force", &container])?;
        committed.map(|_| made)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = engine_says(self.ground.engine, &["rmi", "--force", &self.name]);
    }
}

fn c_library(ground: &Ground) -> Result<()> {
    let name = unique("libc");
    let module = name.replace('-', "_");
    let made = |version: &str, libc: &str| {
        let text = format!("VALUE = {version}\n");
        let tag = format!("py3-none-manylinux_{libc}_{}", std::env::consts::ARCH);
        wheel(&name, version, &tag, &[], &[(&format!("{module}.py"), &text)])
    };
    let index = Index::of([made("1", "2_17"), made("2", "2_34")])?;
    let old = Image::with(ground, OLD)?;
    let folder = ground.kit.folder()?;
    let text = format!("import {module}\nprint({module}.VALUE)\n");
    std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n{text}"))?;
    let job = || {
        let job = ground.codebox(&index).args(["run", "--json", "--engine", ground.engine]);
        job.args(["--isolation", "container"]).folder(folder.path())
    };
    let in_old = || job().args(["--image", &old.name]);
    ensure!(printed(job().arg("main.py"))? == "2\n");
    ensure!(printed(in_old().arg("main.py"))? == "1\n");
    ensure!(printed(job().arg("main.py"))? == "2\n");
    // Both images have the same target name in the lock file, so the same lock applies to both.
    let lock = |words: &[&str]| -> Result<()> {
        let made = ground.codebox(&index).folder(folder.path()).arg("lock").args(words.iter().copied()).run()?;
        ensure!(made.code == Some(0), "{}", made.stderr_text());
        Ok(())
    };
    lock(&["main.py"])?;
    ensure!(printed(job().arg("main.py"))? == "2\n");
    let said = refused(in_old().arg("main.py"), "invalid_request")?;
    for told in [&format!("{module}-2-"), &old.name, "glibc 2.17", &format!("codebox lock --image {}", old.name)] {
        ensure!(said.contains(told), "{told}: {said}");
    }
    lock(&["--image", &old.name, "main.py"])?;
    ensure!(printed(in_old().arg("main.py"))? == "1\n");
    ensure!(printed(job().arg("main.py"))? == "1\n");
    Ok(())
}

fn needs(ground: &Ground) -> Result<()> {
    let (name, need) = (unique("needs"), unique("need"));
    let [module, inner] = [&name, &need].map(|name| name.replace('-', "_"));
    let runs = format!(
        "if os.path.exists('/marker'):\n    SAID['members']['{module}-1.dist-info/METADATA'] += 'Requires-Dist: {need}\\n'"
    );
    let index = Index::of([
        Source { runs: &runs, ..Source::of(&name, "") }.unstated(),
        pure(&need, "1", &[], &[(&format!("{inner}.py"), "")]),
    ])?;
    let marked = Image::with(ground, MARKER)?;
    let program = format!("import importlib.util\nprint(importlib.util.find_spec('{inner}') is not None)");
    let job = || ground.building(&index).args(["--isolation", "container", "--with", &name, "-c", &program]);
    let in_marked = || ground.building(&index).args(["--image", &marked.name, "--with", &name, "-c", &program]);
    ensure!(printed(in_marked())? == "True\n");
    ensure!(printed(job())? == "False\n");
    ensure!(printed(in_marked())? == "True\n");
    Ok(())
}

fn locked(ground: &Ground) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").unstated()])?;
    let marked = Image::with(ground, MARKER)?;
    let folder = ground.kit.folder()?;
    std::fs::write(
        folder.path().join("main.py"),
        format!("# /// script\n# dependencies = ['{name}']\n# ///\nimport {module}\nprint({module}.VALUE)\n"),
    )?;
    let lock = ground.codebox(&index).folder(folder.path()).args(["lock", "--build", "--image", &marked.name]);
    let made = lock.arg("main.py").run()?;
    ensure!(made.code == Some(0) && !made.stderr_text().contains("cannot lock packages"), "{}", made.stderr_text());
    let written = std::fs::read_to_string(folder.path().join("main.py.lock"))?;
    ensure!(written.contains("wasm-") && written.contains("linux-"), "{written}");
    let job = || ground.building(&index).folder(folder.path());
    ensure!(printed(job().arg("main.py"))? == "7\n");
    ensure!(printed(job().args(["--image", &marked.name, "main.py"]))? == "7\n");
    Ok(())
}
