//! Compresses the guest modules that are part of codebox, and lists the texts of Python's runtime with their digest.

#[path = "../embed.rs"]
mod embed;

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::{env, fs};

/// The modules, below `guest-runtimes`.
const MODULES: [&str; 1] = ["javascript/javascript.wasm"];

/// The modules of Python's prelude in loading order. The first one loads the others.
const PYTHON_PRELUDE: &[&str] = &[
    "boot",
    "host",
    "patches",
    "frames",
    "unsupported",
    "missing",
    "net",
    "sockets",
    "tls",
    "select_poll",
    "compat",
    "hooks",
    "pointers",
    "randomstate",
    "integers",
    "descriptors",
    "network",
    "headers",
    "loop",
    "errors",
    "draws",
    "results",
    "databases",
    "notebooks",
    "tools",
    "terminals",
    "start",
    "cells",
    "seeds",
    "effects",
    "warm_up",
    "image",
];

/// The patches of Python's WebAssembly module.
const PYTHON_PATCHES: &[&str] = &["numpy-int64"];

fn main() {
    println!("cargo::rerun-if-changed=../embed.rs");
    let out = env::var_os("OUT_DIR").expect("cargo names it");
    for module in MODULES {
        let file = Path::new("../../guest-runtimes").join(module);
        println!("cargo::rerun-if-changed={}", file.display());
        let content = fs::read(&file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        let name = file.with_extension("embedded");
        let embedded = Path::new(&out).join(name.file_name().expect("a module is a file"));
        fs::write(embedded, embed::compress(&content)).expect("the output file is written");
    }
    let tables = python(&fs::canonicalize("../../guest-runtimes/python").expect("the folder is part of the sources"));
    fs::write(Path::new(&out).join("python.rs"), tables).expect("the output directory takes files");
}

/// Returns the source of the tables of Python's texts, each as its name and its text, and of their digest.
fn python(folder: &Path) -> String {
    // A digest at build time saves every start of codebox from computing it. It detects changes of codebox's own sources,
    // and need not resist a search for collisions.
    let mut digest = DefaultHasher::new();
    let mut tables = String::new();
    for (table, names, below, extension, about) in [
        ("PYTHON", PYTHON_PRELUDE, "prelude", "py", "modules of Python's prelude in loading order"),
        ("PYTHON_PATCHES", PYTHON_PATCHES, "patches", "toml", "patches of Python's WebAssembly module"),
    ] {
        writeln!(tables, "/// The {about}.\nconst {table}: &[(&str, &str)] = &[").expect("a string takes all text");
        for name in names {
            let file = folder.join(below).join(name).with_extension(extension);
            println!("cargo::rerun-if-changed={}", file.display());
            let text = fs::read(&file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
            (name, text).hash(&mut digest);
            writeln!(tables, "    ({name:?}, include_str!({file:?})),").expect("a string takes all text");
        }
        tables.push_str("];\n");
    }
    let digest = digest.finish();
    format!("{tables}/// A digest of the texts.\nconst PYTHON_DIGEST: &str = \"{digest:016x}\";\n")
}
