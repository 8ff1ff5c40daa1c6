//! Compresses the guest modules that are part of codebox.

#[path = "../embed.rs"]
mod embed;

use std::path::Path;
use std::{env, fs};

/// The modules, below `guest-runtimes`.
const MODULES: [&str; 1] = ["javascript/javascript.wasm"];

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
}
