//! Builds the agent, which has to start in any image: statically linked, by a cargo of its own, once for all profiles.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../agent/src");
    println!("cargo::rerun-if-changed=../agent/Cargo.toml");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    let agent = out.join("codebox-agent");
    // The agent of another system's codebox would have to be compiled for Linux there; such a build has none and says so.
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux {
        let built = build(&out);
        fs::copy(&built, &agent).unwrap_or_else(|error| panic!("cannot copy {}: {error}", built.display()));
        let bytes = fs::read(&agent).expect("it has just been written");
        let mut digest = DefaultHasher::new();
        bytes.hash(&mut digest);
        println!("cargo::rustc-env=CODEBOX_AGENT_DIGEST={:016x}", digest.finish());
    } else {
        fs::write(&agent, []).expect("the output directory takes files");
        println!("cargo::rustc-env=CODEBOX_AGENT_DIGEST=none");
    }
}

/// Builds the agent and tells where it is.
fn build(out: &Path) -> PathBuf {
    let target = env::var("TARGET").expect("cargo names it");
    // `target/PROFILE/build/PACKAGE/out`, or one deeper where a target is named: a place that all profiles share.
    let shared = out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").exists()).unwrap_or(out).join("agent");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo names itself"));
    cargo
        .args(["build", "--release", "--locked", "--package", "codebox-agent", "--bin", "codebox-agent"])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&shared)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_LTO", "true")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // What belongs to the outer build: its flags, and the wrapper with which clippy takes the compiler's place.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the agent cannot be built; a static C library is needed (libc6-dev, glibc-static)");
    shared.join(target).join("release/codebox-agent")
}
