//! Builds the analyzer program, which this crate embeds for the host.

#[path = "../embed.rs"]
mod embed;
#[path = "../static_program.rs"]
mod static_program;

use std::env;

fn main() {
    // The analyzer itself depends only on the protocol of this crate.
    if env::var_os("CARGO_FEATURE_CLIENT").is_none() {
        return;
    }
    for source in ["src", "../analyzer", "../typescript", "../embed.rs", "../static_program.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let is_set = |name: &str| env::var_os(name).is_some();
    // Miri starts no programs.
    let is_embedded = is_set("CARGO_CFG_UNIX") && is_set("CARGO_FEATURE_PROGRAM") && !is_set("CARGO_CFG_MIRI");
    let digest = "CODEBOX_ANALYZER_DIGEST";
    if is_embedded {
        static_program::embed("codebox-analyzer", digest, "analyzer", "s");
    } else {
        static_program::embed_none("codebox-analyzer", digest);
    }
}
