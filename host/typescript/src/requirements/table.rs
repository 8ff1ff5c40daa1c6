//! Needs that calls and imports of JavaScript show.
//!
//! The runtime's modules for processes, threads and the network can be loaded and fail on use, so only calls of them
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::Facility;

/// The table of functions for which the runtime has only stubs.
#[derive(Default, Deserialize)]
struct AbsentFunctions {
    modules: BTreeMap<String, BTreeSet<String>>,
    subtle: BTreeSet<String>,
}

/// The functions and classes of Node that the runtime does not have, as `module.name`. Their use fails.
static ABSENT_FUNCTIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let text = include_str!("../../../../guest-runtimes/javascript/prelude/src/absent.json");
    // The tests parse the file too, so it is known to be valid.
    let AbsentFunctions { modules, subtle } = serde_json::from_str(text).unwrap_or_default();
    let module_functions =
        modules.iter().flat_map(|(module, names)| names.iter().map(move |name| format!("{module}.{name}")));
    let subtle_functions = subtle
        .iter()
        .flat_map(|name| ["crypto.subtle", "crypto.webcrypto.subtle"].map(|object| format!("{object}.{name}")));
    module_functions.chain(subtle_functions).chain(["fs.watch".to_owned(), "fs.watchFile".to_owned()]).collect()
});

/// Returns the facility that a call of this function or class needs.
pub(super) fn facility_of_call(path: &str) -> Option<Facility> {
    let (module, name) = path.rsplit_once('.').unwrap_or(("", path));
    Some(match (module, name) {
        ("worker_threads" | "", "Worker") => Facility::Threads,
        ("child_process", "exec" | "execFile" | "execFileSync" | "execSync" | "fork" | "spawn" | "spawnSync")
        | ("cluster", "fork") => Facility::Processes,
        ("" | "undici", "fetch")
        | ("", "WebSocket" | "EventSource")
        | ("net" | "tls", "connect" | "createConnection" | "createServer" | "Socket" | "Server" | "TLSSocket")
        | ("http" | "https", "get" | "request" | "createServer" | "Server" | "ClientRequest")
        | ("http2", "connect" | "createServer" | "createSecureServer")
        | ("dgram", "createSocket" | "Socket")
        | ("inspector", "open") => Facility::Sockets,
        ("dns" | "dns.promises" | "dns/promises", name) if is_lookup(name) => Facility::Sockets,
        _ => return ABSENT_FUNCTIONS.get(path).map(|path| Facility::Module(path)),
    })
}

fn is_lookup(name: &str) -> bool {
    name.starts_with("resolve") || matches!(name, "lookup" | "lookupService" | "reverse")
}

/// Returns true if a name that the program does not declare is relevant.
pub(super) fn is_global(name: &str) -> bool {
    facility_of_call(name).is_some() || matches!(name, "globalThis" | "global" | "window" | "self" | "crypto")
}

/// Returns the facility that an import needs, with the name of the import. Returns `None` if the runtime has the module
/// or the module is unknown.
pub(super) fn facility_of_import(specifier: &str) -> Option<(Facility, &'static str)> {
    let module = |name: &'static str| Some((Facility::Module(name), name));
    if let Some(name) = specifier.strip_prefix("node:") {
        return match name {
            "sqlite" => module("node:sqlite"),
            "sea" => module("node:sea"),
            "test/reporters" => module("node:test/reporters"),
            _ => None,
        };
    }
    if specifier.ends_with(".node") {
        return module("a .node file");
    }
    let package = package_of(specifier);
    let known = |names: &[&'static str]| names.iter().find(|name| **name == package).copied();
    if let Some(name) = known(&NATIVE) {
        return module(name);
    }
    known(&NETWORK_PACKAGES).map(|name| (Facility::Sockets, name))
}

/// Returns the package of a specifier: `a` of `a/b`, `@a/b` of `@a/b/c`.
fn package_of(specifier: &str) -> &str {
    let parts = if specifier.starts_with('@') { 2 } else { 1 };
    let end = specifier.match_indices('/').nth(parts - 1).map_or(specifier.len(), |(at, _)| at);
    &specifier[..end]
}

/// Packages with native code.
const NATIVE: [&str; 48] = [
    "@napi-rs/canvas",
    "@node-rs/argon2",
    "@node-rs/bcrypt",
    "@parcel/watcher",
    "@prisma/client",
    "@swc/core",
    "@tensorflow/tfjs-node",
    "argon2",
    "bcrypt",
    "better-sqlite3",
    "bufferutil",
    "canvas",
    "classic-level",
    "cpu-features",
    "deasync",
    "duckdb",
    "esbuild",
    "ffi-napi",
    "fsevents",
    "gl",
    "hnswlib-node",
    "isolated-vm",
    "keytar",
    "leveldown",
    "libsql",
    "lightningcss",
    "lmdb",
    "lz4",
    "microtime",
    "node-gyp",
    "node-pty",
    "node-sass",
    "nodegit",
    "onnxruntime-node",
    "oracledb",
    "pg-native",
    "re2",
    "ref-napi",
    "robotjs",
    "rollup",
    "serialport",
    "sharp",
    "snappy",
    "sqlite3",
    "usb",
    "utf-8-validate",
    "zeromq",
    "zstd-napi",
];

/// Packages that are useless without the network.
const NETWORK_PACKAGES: [&str; 28] = [
    "amqplib",
    "axios",
    "express",
    "fastify",
    "got",
    "http-server",
    "hapi",
    "@hapi/hapi",
    "ioredis",
    "kafkajs",
    "koa",
    "mongodb",
    "mongoose",
    "mysql",
    "mysql2",
    "needle",
    "node-fetch",
    "nodemailer",
    "pg",
    "playwright",
    "puppeteer",
    "redis",
    "request",
    "socket.io",
    "socket.io-client",
    "superagent",
    "undici",
    "ws",
];
