//! A native build of the QuickJS-NG that the JavaScript runtime is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use codebox_testkit::sources_of;

use crate::project::{Project, output_of};

const CRATE: &str = "rquickjs-sys";
const SOURCES: [&str; 8] =
    ["qjs.c", "quickjs-libc.c", "quickjs.c", "libregexp.c", "libunicode.c", "dtoa.c", "gen/repl.c", "gen/standalone.c"];
/// Those of the runtime's build that bear on what the code means.
const FLAGS: [&str; 8] =
    ["-std=gnu11", "-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-funsigned-char", "-fwrapv", "-fno-strict-aliasing", "-w"];
const LIBRARIES: [&str; 3] = ["-lm", "-lpthread", "-ldl"];

/// Its own command-line program, built below the target directory at first use.
///
/// # Errors
/// When the sources or a C compiler cannot be had, or the runtime was made of another version.
pub fn build(project: &Project) -> Result<PathBuf> {
    let sources = sources_of(CRATE)?;
    let name = sources.file_name().context("the sources have no folder")?.to_string_lossy();
    let shelf = project.target.join("compare");
    let place = shelf.join(format!("{name}-qjs{}", FLAGS.concat()));
    if !place.is_file() {
        eprintln!("  building QuickJS-NG natively, once");
        fs::create_dir_all(&shelf).with_context(|| format!("create {}", shelf.display()))?;
        let folder = tempfile::tempdir_in(&shelf).context("make a folder for the build")?;
        let built = folder.path().join("qjs");
        let mut compile = Command::new("cc");
        compile.current_dir(sources.join("quickjs")).args(FLAGS).args(["-I", ".", "-o"]).arg(&built);
        output_of(compile.args(SOURCES).args(LIBRARIES))?;
        // Renamed only now, so that an interrupted run leaves nothing half-done.
        fs::rename(&built, &place).with_context(|| format!("put the build in {}", place.display()))?;
    }
    check(&place, &project.root)?;
    Ok(place)
}

/// Checks that the build is of the version that the runtime says it is.
fn check(built: &Path, root: &Path) -> Result<()> {
    let path = root.join("guest-runtimes/javascript/runtime.toml");
    let runtime = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let version = output_of(Command::new(built).arg("--version"))?;
    let line = format!("version = \"{}\"", version.trim());
    ensure!(runtime.lines().any(|found| found == line), "{} does not say {line}", path.display());
    Ok(())
}
