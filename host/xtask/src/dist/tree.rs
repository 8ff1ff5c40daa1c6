//! The files of an installation, as they are below its prefix.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{licences, sbom};
use crate::project::{Project, output_of};

/// Programs of an installation.
const PROGRAMS: [&str; 3] = ["codebox", "codebox-run", "codebox-full"];

/// Shells with the files of their completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/codebox"),
    ("zsh", "share/zsh/site-functions/_codebox"),
    ("fish", "share/fish/vendor_completions.d/codebox.fish"),
];

/// Directory of documents.
const DOCUMENTS: &str = "share/doc/codebox";

/// A directory with the files of an installation.
pub(super) struct Tree {
    root: PathBuf,
    /// The files in the order of their paths.
    files: Vec<TreeFile>,
}

/// A file of an installation.
pub(super) struct TreeFile {
    /// The path below the prefix, with `/` between names.
    pub path: String,
    /// The file itself.
    pub source: PathBuf,
    pub size: u64,
    pub is_program: bool,
}

impl TreeFile {
    /// Returns the permissions.
    pub(super) fn mode(&self) -> u32 {
        if self.is_program { 0o755 } else { 0o644 }
    }
}

impl Tree {
    /// Creates the files of an installation in `root`, with the programs of a directory, and the runtimes compiled for levels of
    /// processors.
    pub(super) fn build(project: &Project, programs: &Path, root: &Path, levels: &[String]) -> Result<Self> {
        let put = |path: &str, content: &[u8]| -> Result<()> {
            let path = root.join(path);
            fs::create_dir_all(path.parent().context("a path below the prefix")?)?;
            fs::write(&path, content).with_context(|| format!("write {}", path.display()))
        };
        for name in PROGRAMS {
            let program = programs.join(name);
            check_is_static(&program)?;
            let content = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
            put(&format!("bin/{name}"), &content)?;
            fs::set_permissions(root.join("bin").join(name), fs::Permissions::from_mode(0o755))?;
        }
        let program = root.join("bin/codebox-full");
        let mut pack = Command::new(&program);
        pack.arg("pack-runtimes").arg(root.join("lib/codebox")).args(levels).env("CODEBOX_HOME", &project.home);
        output_of(&mut pack)?;
        let pages = root.join("share/man/man1");
        fs::create_dir_all(&pages)?;
        output_of(Command::new(&program).arg("man-pages").arg(&pages))?;
        for (shell, path) in COMPLETIONS {
            put(path, output_of(Command::new(&program).args(["completions", shell]))?.as_bytes())?;
        }
        for document in ["README.md", "LICENSE", "docs/changelog.md"] {
            let name = Path::new(document).file_name().context("a document")?.to_string_lossy().into_owned();
            put(&format!("{DOCUMENTS}/{name}"), &fs::read(project.root.join(document))?)?;
        }
        let components = sbom::components(project)?;
        put(&format!("{DOCUMENTS}/sbom.cdx.json"), &sbom::document(project, &components)?)?;
        put(
            &format!("{DOCUMENTS}/third-party-licences.txt"),
            licences::text(&components, &project.root.join("guest-runtimes/javascript/LICENSES"))?.as_bytes(),
        )?;
        Self::at(root)
    }

    /// Lists the files in a directory.
    fn at(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        list(root, root, &mut files)?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { root: root.to_owned(), files })
    }

    pub(super) fn files(&self) -> &[TreeFile] {
        &self.files
    }

    /// Returns the paths of all directories of the files, each before those below it.
    pub(super) fn dirs(&self) -> Vec<String> {
        let mut dirs: Vec<String> = Vec::new();
        for file in &self.files {
            let parents = file.path.match_indices('/').map(|(end, _)| file.path[..end].to_owned());
            dirs.extend(parents);
        }
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// Returns the content of a document of the installation.
    pub(super) fn document(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.root.join(DOCUMENTS).join(name);
        fs::read(&path).with_context(|| format!("read {}", path.display()))
    }
}

fn list(root: &Path, dir: &Path, files: &mut Vec<TreeFile>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, meta) = (entry.path(), entry.metadata()?);
        if meta.is_dir() {
            list(root, &path, files)?;
            continue;
        }
        ensure!(meta.is_file(), "{} is no regular file", path.display());
        let relative = path.strip_prefix(root)?.to_str().context("a path that is not UTF-8")?.to_owned();
        let is_program = meta.permissions().mode() & 0o100 != 0;
        files.push(TreeFile { path: relative, source: path, size: meta.len(), is_program });
    }
    Ok(())
}

/// Checks that a program needs no shared libraries, which other systems have in other versions.
fn check_is_static(program: &Path) -> Result<()> {
    let output = Command::new("ldd").arg(program).output().context("start ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let is_static = ["statically linked", "not a dynamic executable"].iter().any(|words| text.contains(words));
    ensure!(
        is_static,
        "{} needs shared libraries; install the static C library and build it again: {text}",
        program.display()
    );
    Ok(())
}
