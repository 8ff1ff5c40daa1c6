//! Link options of the program: relative relocations are packed if the system's loader supports that.
//!
//! The engine and the compiler have about eighty thousand relocations. The unpacked list is two megabytes, which every
//! start reads; the packed list is twenty kilobytes and shortens a start by a millisecond.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The first glibc whose loader supports packed relocations.
const SUPPORTS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=host/build.rs");
    let is = |name: &str, expected: &str| env::var(name).is_ok_and(|value| value == expected);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    if native
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && glibc() >= Some(SUPPORTS_PACKED)
    {
        for program in ["codebox-run", "codebox-full"] {
            println!("cargo:rustc-link-arg-bin={program}=-Wl,-z,pack-relative-relocs");
        }
    }
    if native && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        link_statically();
    }
}

/// Links the programs without shared libraries: loading them takes more time than the work of `codebox`, and a twentieth of a
/// short run of `codebox-full`. Static programs also run on systems with another C library. The linker is given files with
/// the names of the shared libraries that refer to the static ones, because the compiler names the libraries.
fn link_statically() {
    let static_libraries =
        [("libc.so", "libc.a"), ("libm.so", "libm.a"), ("libgcc_s.so", "libgcc_eh.a")].map(|(name, library)| {
            let path = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?.stdout;
            let path = PathBuf::from(String::from_utf8(path).ok()?.trim());
            // The compiler prints the name alone if it does not find the library.
            path.is_absolute().then_some((name, path))
        });
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    for library in static_libraries {
        // Without a static library, the program uses the shared ones.
        let Some((name, path)) = library else { return };
        let script = format!("INPUT({})\n", path.display());
        fs::write(out.join(name), script).expect("the output directory is writable");
    }
    for program in ["codebox", "codebox-run", "codebox-full"] {
        println!("cargo:rustc-link-arg-bin={program}=-L{}", out.display());
        println!("cargo:rustc-link-arg-bin={program}=-static-pie");
        println!("cargo:rustc-link-arg-bin={program}=-Wl,-z,nodynamic-undefined-weak");
    }
}

/// Returns the version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let output = String::from_utf8(output).ok()?;
    let (major, minor) = output.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
