//! Build of a helper program of this workspace that another crate embeds. The program is statically linked, and is
//! built by a separate cargo process once for all profiles. The build scripts of the embedding crates include this
//! file.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::embed::compress;

/// Builds the program `name` of the package of the same name, and writes it to `NAME.embedded` in the output directory, in
/// the form that `codebox_files::EmbeddedFile` reads.
///
/// Sets the environment variable `digest` to a hash of the program for the crate that is being compiled. `shared` names
/// the build directory below the target directory, which all profiles and targets share. `opt_level` is the
/// optimisation level.
pub fn embed(name: &str, digest: &str, shared: &str, opt_level: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    let built = build(&out, name, shared, opt_level);
    let bytes = fs::read(&built).unwrap_or_else(|error| panic!("cannot read {}: {error}", built.display()));
    fs::write(embedded_path(&out, name), compress(&bytes)).expect("the output file is written");
    let mut hash = DefaultHasher::new();
    bytes.hash(&mut hash);
    println!("cargo::rustc-env={digest}={:016x}", hash.finish());
}

/// Writes an empty file as the program, for targets on which the program does not exist.
pub fn embed_none(name: &str, digest: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    fs::write(embedded_path(&out, name), []).expect("the output file is written");
    println!("cargo::rustc-env={digest}=none");
}

fn embedded_path(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.embedded"))
}

/// Returns the directory `target` of `target/PROFILE/build/PACKAGE/out`, which is `target/TARGET/PROFILE/build/PACKAGE/out`
/// if a target is set.
fn target_dir<'p>(out: &'p Path, target: &str) -> &'p Path {
    let profiles = out.ancestors().nth(4).unwrap_or(out);
    if profiles.ends_with(target) { profiles.parent().unwrap_or(profiles) } else { profiles }
}

/// Builds the program and returns its path.
fn build(out: &Path, name: &str, shared: &str, opt_level: &str) -> PathBuf {
    let target = env::var("TARGET").expect("cargo names it");
    let shared = target_dir(out, &target).join(shared);
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo names itself"));
    cargo
        .args(["build", "--release", "--locked", "--package", name, "--bin", name])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&shared)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", opt_level)
        .env("CARGO_PROFILE_RELEASE_LTO", "true")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // The outer build's flags, and clippy's wrapper of the compiler, must not apply to the inner build.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET");
    // The inner build scripts would mistake the features of the crate that is being compiled for their own.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_FEATURE_")) {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "{name} cannot be built; a static C library is needed (libc6-dev, glibc-static)");
    shared.join(target).join("release").join(name)
}
