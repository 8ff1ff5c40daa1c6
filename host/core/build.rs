//! Collects the descriptions of the built-in languages from their runtimes' `runtime.toml` into one JSON file, which is
//! faster to read at each start. The file has one list of languages for each runtime.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Runtimes that are part of codebox, in the order in which their languages are listed.
const RUNTIMES: [&str; 2] = ["python", "javascript"];

fn main() {
    let runtimes = Path::new("../../guest-runtimes");
    let mut languages = Vec::with_capacity(RUNTIMES.len());
    for runtime in RUNTIMES {
        let file = runtimes.join(runtime).join("runtime.toml");
        println!("cargo::rerun-if-changed={}", file.display());
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let described: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let own = described.get("language").and_then(toml::Value::as_array);
        languages.push(own.unwrap_or_else(|| panic!("{}: no [[language]]", file.display())).clone());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("languages.json");
    let json = serde_json::to_vec(&languages).expect("a table of TOML is valid JSON");
    fs::write(&out, json).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}
