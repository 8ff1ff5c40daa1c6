//! Builds the agent, which must be able to start in any image.

#[path = "../embed.rs"]
mod embed;
#[path = "../static_program.rs"]
mod static_program;

use std::env;

fn main() {
    for source in ["../agent/src", "../agent/Cargo.toml", "../embed.rs", "../static_program.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    // On other systems the agent would have to be cross-compiled for Linux. Such a build has no agent and reports it.
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let digest = "CODEBOX_AGENT_DIGEST";
    if is_linux {
        static_program::embed("codebox-agent", digest, "agent", "s");
    } else {
        static_program::embed_none("codebox-agent", digest);
    }
}
