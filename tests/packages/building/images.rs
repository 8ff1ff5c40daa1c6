//! Images that differ: the resolution for one image does not apply to runs in another.

use anyhow::{Result, ensure};
use codebox_testkit::{BASE_IMAGE, engine_output};

use super::{Case, TestEnvironment};
use crate::index::{Index, pure, unique, wheel};
use crate::sdist_source::Source;
use crate::{run_expecting_failure, run_successfully};

pub(super) const CASES: &[Case] = &[
    ("resolves_per_c_library", resolves_per_c_library),
    ("resolves_build_requirements_per_image", resolves_build_requirements_per_image),
    ("locks_builds_for_named_image", locks_builds_for_named_image),
];

/// Path of the file that makes Python report an old C library.
const OLD_C_LIBRARY_PATH: &str = "/usr/local/lib/python3.11/dist-packages/old.pth";

/// Content of the file that makes Python report an old C library.
const OLD_C_LIBRARY: &str = "import os; os.confstr = lambda name: 'glibc 2.17'\n";

/// Path of an empty file that only makes an image different from others.
const MARKER_PATH: &str = "/marker";

/// Test image with one more file; removed when dropped.
struct Image<'g> {
    test_env: &'g TestEnvironment,
    name: String,
}

impl<'g> Image<'g> {
    fn with_file(test_env: &'g TestEnvironment, image_path: &str, text: &str) -> Result<Self> {
        let folder = test_env.kit.folder()?;
        let file = folder.path().join("file");
        std::fs::write(&file, text)?;
        let run_engine = |args: &[&str]| engine_output(test_env.engine, args);
        let created = Self { test_env, name: format!("localhost/{}:1", unique("image")) };
        let container = run_engine(&["create", BASE_IMAGE, "true"])?;
        let copied = run_engine(&["cp", &file.display().to_string(), &format!("{container}:{image_path}")]);
        let committed = copied.and_then(|_| run_engine(&["commit", &container, &created.name]));
        run_engine(&["rm", "--force", &container])?;
        committed.map(|_| created)
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = engine_output(self.test_env.engine, &["rmi", "--force", &self.name]);
    }
}

fn resolves_per_c_library(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("libc");
    let module = name.replace('-', "_");
    let created = |version: &str, libc: &str| {
        let text = format!("VALUE = {version}\n");
        let tag = format!("py3-none-manylinux_{libc}_{}", std::env::consts::ARCH);
        wheel(&name, version, &tag, &[], &[(&format!("{module}.py"), &text)])
    };
    let index = Index::of([created("1", "2_17"), created("2", "2_34")])?;
    let old = Image::with_file(test_env, OLD_C_LIBRARY_PATH, OLD_C_LIBRARY)?;
    let folder = test_env.kit.folder()?;
    let text = format!("import {module}\nprint({module}.VALUE)\n");
    std::fs::write(folder.path().join("main.py"), format!("# /// script\n# dependencies = ['{name}']\n# ///\n{text}"))?;
    let job = || {
        let job = test_env.codebox(&index).args(["run", "--json", "--engine", test_env.engine]);
        job.args(["--isolation", "container"]).folder(folder.path())
    };
    let in_old_image = || job().args(["--image", &old.name]);
    ensure!(run_successfully(job().arg("main.py"))? == "2\n");
    ensure!(run_successfully(in_old_image().arg("main.py"))? == "1\n");
    ensure!(run_successfully(job().arg("main.py"))? == "2\n");
    // Both images have the same target name in the lock file, so the same lock applies to both.
    let lock = |arguments: &[&str]| -> Result<()> {
        let created =
            test_env.codebox(&index).folder(folder.path()).arg("lock").args(arguments.iter().copied()).run()?;
        ensure!(created.code == Some(0), "{}", created.stderr_text());
        Ok(())
    };
    lock(&["main.py"])?;
    ensure!(run_successfully(job().arg("main.py"))? == "2\n");
    let output = run_expecting_failure(in_old_image().arg("main.py"), "invalid_request")?;
    for expected in [&format!("{module}-2-"), &old.name, "glibc 2.17", &format!("codebox lock --image {}", old.name)] {
        ensure!(output.contains(expected), "{expected}: {output}");
    }
    lock(&["--image", &old.name, "main.py"])?;
    ensure!(run_successfully(in_old_image().arg("main.py"))? == "1\n");
    ensure!(run_successfully(job().arg("main.py"))? == "1\n");
    Ok(())
}

fn resolves_build_requirements_per_image(test_env: &TestEnvironment) -> Result<()> {
    let (name, need) = (unique("needs"), unique("need"));
    let [module, inner] = [&name, &need].map(|name| name.replace('-', "_"));
    let build_code = format!(
        "if os.path.exists('/marker'):\n    MANIFEST['members']['{module}-1.dist-info/METADATA'] += 'Requires-Dist: {need}\\n'"
    );
    let index = Index::of([
        Source { build_code: &build_code, ..Source::of(&name, "") }.with_dynamic_metadata(),
        pure(&need, "1", &[], &[(&format!("{inner}.py"), "")]),
    ])?;
    let marked = Image::with_file(test_env, MARKER_PATH, "")?;
    let program = format!("import importlib.util\nprint(importlib.util.find_spec('{inner}') is not None)");
    let job = || test_env.building(&index).args(["--isolation", "container", "--with", &name, "-c", &program]);
    let in_marked_image = || test_env.building(&index).args(["--image", &marked.name, "--with", &name, "-c", &program]);
    ensure!(run_successfully(in_marked_image())? == "True\n");
    ensure!(run_successfully(job())? == "False\n");
    ensure!(run_successfully(in_marked_image())? == "True\n");
    Ok(())
}

fn locks_builds_for_named_image(test_env: &TestEnvironment) -> Result<()> {
    let name = unique("locked");
    let module = name.replace('-', "_");
    let index = Index::of([Source::of(&name, "VALUE = 7\n").with_dynamic_metadata()])?;
    let marked = Image::with_file(test_env, MARKER_PATH, "")?;
    let folder = test_env.kit.folder()?;
    std::fs::write(
        folder.path().join("main.py"),
        format!("# /// script\n# dependencies = ['{name}']\n# ///\nimport {module}\nprint({module}.VALUE)\n"),
    )?;
    let lock = test_env.codebox(&index).folder(folder.path()).args(["lock", "--build", "--image", &marked.name]);
    let created = lock.arg("main.py").run()?;
    ensure!(
        created.code == Some(0) && !created.stderr_text().contains("cannot lock packages"),
        "{}",
        created.stderr_text()
    );
    let written = std::fs::read_to_string(folder.path().join("main.py.lock"))?;
    ensure!(written.contains("wasm-") && written.contains("linux-"), "{written}");
    let job = || test_env.building(&index).folder(folder.path());
    ensure!(run_successfully(job().arg("main.py"))? == "7\n");
    ensure!(run_successfully(job().args(["--image", &marked.name, "main.py"]))? == "7\n");
    Ok(())
}
