//! Packages of a release for this machine's system: archives, a wheel, packages of npm, a Debian package, an install script and
//! templates for other package managers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::project::{Project, output_of};

mod archive;
mod checksums;
mod debian;
mod licences;
mod npm;
mod sbom;
mod target;
mod templates;
mod tree;
mod wheel;

use target::Target;
use tree::Tree;

/// Arguments of `dist`.
#[derive(Args)]
pub struct Options {
    /// Use the programs of this cargo profile
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Do not build the programs first
    #[arg(long)]
    no_build: bool,
    /// Compile the runtimes for this level of processors, or `native`; repeatable [default: x86-64-v2 and x86-64-v3, or aarch64]
    #[arg(long = "level", value_name = "LEVEL")]
    levels: Vec<String>,
    /// Make only this kind of package; repeatable [default: all]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Compress little, for tests
    #[arg(long)]
    fast: bool,
    /// Address of the directory from which the install script and the templates fetch the archives
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Directory of the packages, whose content is replaced [default: target/dist/packages]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Archive compressed with zstd
    Zst,
    /// Archive compressed with gzip, for systems without zstd
    Gz,
    /// Wheel for Python package indexes
    Wheel,
    /// Packages of npm
    Npm,
    /// Debian package
    Deb,
}

/// Settings of all kinds of packages.
struct Release<'a> {
    tree: &'a Tree,
    target: &'a Target,
    version: &'a str,
    /// Time of all files, in seconds since 1970.
    epoch: u64,
    fast: bool,
    /// Directory of the finished packages.
    into: &'a Path,
    /// Directory of the sources of packages.
    packaging: &'a Path,
}

/// Makes the packages.
///
/// # Errors
/// Fails if the programs cannot be built, the runtimes cannot be prepared, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let target = Target::of_this_machine()?;
    let programs = project.target.join(&options.profile);
    if !options.no_build {
        build(&project, &options.profile)?;
    }
    let version = version(&project)?;
    let epoch = epoch(&project)?;
    let into = options.into.clone().unwrap_or_else(|| project.target.join("dist/packages"));
    clear(&into)?;
    fs::create_dir_all(&into).with_context(|| format!("create {}", into.display()))?;
    // Marks the directory if this task is interrupted.
    fs::write(into.join(checksums::FILE), "")?;
    let staging = tempfile::Builder::new().prefix(".staging-").tempdir_in(&into)?;
    let levels = if options.levels.is_empty() { target.levels() } else { options.levels.clone() };
    let tree = Tree::build(&project, &programs, staging.path(), &levels)?;
    let packaging = project.root.join("packaging");
    let release = Release {
        tree: &tree,
        target: &target,
        version: &version,
        epoch,
        fast: options.fast,
        into: &into,
        packaging: &packaging,
    };
    let kinds = if options.kinds.is_empty() { Kind::value_variants() } else { &options.kinds };
    make_all(&release, kinds)?;
    let sums = checksums::write(&into)?;
    templates::write(&release, options.url.as_deref(), &sums)?;
    drop(staging);
    for (name, size) in checksums::sizes(&into)? {
        println!("{size:>9.1} MB  {name}");
    }
    Ok(())
}

/// Removes a directory of packages. Another directory is not removed.
fn clear(into: &Path) -> Result<()> {
    let is_empty = fs::read_dir(into).map_or(true, |mut entries| entries.next().is_none());
    let marker = into.join(checksums::FILE);
    ensure!(is_empty || marker.is_file(), "{} is not a directory of packages; empty it first", into.display());
    match fs::remove_dir_all(into) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", into.display()))
        }
        _ => Ok(()),
    }
}

/// Makes the packages of these kinds, each on a thread: compression takes most of the time.
fn make_all(release: &Release<'_>, kinds: &[Kind]) -> Result<()> {
    thread::scope(|scope| {
        let made: Vec<_> = kinds.iter().map(|kind| scope.spawn(|| make(release, *kind))).collect();
        made.into_iter().try_for_each(|made| made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn make(release: &Release<'_>, kind: Kind) -> Result<()> {
    let made = match kind {
        Kind::Zst => archive::write_zst(release),
        Kind::Gz => archive::write_gz(release),
        Kind::Wheel => wheel::write(release),
        Kind::Npm => npm::write(release),
        Kind::Deb => debian::write(release),
    };
    made.with_context(|| format!("make the package {kind:?}"))
}

fn build(project: &Project, profile: &str) -> Result<()> {
    if profile == "release" {
        project.binary()?;
    } else {
        let built =
            project.cargo().args(["build", "--locked", "--profile", profile]).status().context("start cargo")?;
        ensure!(built.success(), "the programs could not be built");
    }
    project.build_run_program(profile)
}

/// Returns the version of the workspace.
fn version(project: &Project) -> Result<String> {
    let manifest = fs::read_to_string(project.root.join("Cargo.toml"))?;
    let manifest: toml::Table = toml::from_str(&manifest)?;
    let version = manifest.get("workspace").and_then(|table| table.get("package")?.get("version")?.as_str());
    Ok(version.context("Cargo.toml has no version")?.to_owned())
}

/// Returns the time that all files of a package have: `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn epoch(project: &Project) -> Result<u64> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return epoch.parse().context("SOURCE_DATE_EPOCH is not a number of seconds");
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(&project.root);
    output_of(&mut git)?.trim().parse().context("read the time of the last commit")
}
