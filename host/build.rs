//! Link options of the program: relative relocations are packed if the system's loader supports that.
//!
//! The engine and the compiler have about eighty thousand relocations. The unpacked list is two megabytes, which every
//! start reads; the packed list is twenty kilobytes and shortens a start by a millisecond.

use std::process::Command;

/// The first glibc whose loader supports packed relocations.
const SUPPORTS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=host/build.rs");
    let is = |name: &str, expected: &str| std::env::var(name).is_ok_and(|value| value == expected);
    let native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    if native
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && glibc() >= Some(SUPPORTS_PACKED)
    {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let output = String::from_utf8(output).ok()?;
    let (major, minor) = output.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
