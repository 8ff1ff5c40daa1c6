//! Native build of the QuickJS-NG that the JavaScript runtime contains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use codebox_testkit::sources_of;

use crate::project::{Project, output_of};

const CRATE: &str = "rquickjs-sys";
const SOURCES: [&str; 8] =
    ["qjs.c", "quickjs-libc.c", "quickjs.c", "libregexp.c", "libunicode.c", "dtoa.c", "gen/repl.c", "gen/standalone.c"];
/// Those flags of the runtime's build that affect the meaning of the code.
const FLAGS: [&str; 8] =
    ["-std=gnu11", "-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-funsigned-char", "-fwrapv", "-fno-strict-aliasing", "-w"];
const LIBRARIES: [&str; 3] = ["-lm", "-lpthread", "-ldl"];

/// Builds QuickJS-NG's own command-line program below the target directory, on first use.
///
/// # Errors
/// Fails if the sources or a C compiler are missing, or if the runtime was built from another version.
pub fn build(project: &Project) -> Result<PathBuf> {
    let sources = sources_of(CRATE)?;
    let name = sources.file_name().context("the sources have no folder")?.to_string_lossy();
    let cache_dir = project.target.join("compare");
    let place = cache_dir.join(format!("{name}-qjs{}", FLAGS.concat()));
    if !place.is_file() {
        eprintln!("  building QuickJS-NG natively, once");
        fs::create_dir_all(&cache_dir).with_context(|| format!("create {}", cache_dir.display()))?;
        let folder = tempfile::tempdir_in(&cache_dir).context("make a folder for the build")?;
        let built = folder.path().join("qjs");
        let mut compile = Command::new("cc");
        compile.current_dir(sources.join("quickjs")).args(FLAGS).args(["-I", ".", "-o"]).arg(&built);
        output_of(compile.args(SOURCES).args(LIBRARIES))?;
        // The rename comes last, so that an interrupted run leaves no partial build.
        fs::rename(&built, &place).with_context(|| format!("put the build in {}", place.display()))?;
    }
    check(&place, &project.root)?;
    Ok(place)
}

/// Checks that the build has the version that the runtime's description names.
fn check(built: &Path, root: &Path) -> Result<()> {
    let path = root.join("guest-runtimes/javascript/runtime.toml");
    let runtime = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let version = output_of(Command::new(built).arg("--version"))?;
    let line = format!("version = \"{}\"", version.trim());
    ensure!(runtime.lines().any(|found| found == line), "{} does not contain {line}", path.display());
    Ok(())
}
