//! Descriptions of the features that a guest can lack, and hints on how to get them.

use codebox_core::{AddressKind, Missing};

/// A feature that a prelude reports, its name in reports, and a hint for the user.
struct FeatureDescription {
    identifier: &'static str,
    name: &'static str,
    hint: &'static str,
}

/// The features that preludes report by an identifier of their own.
const FEATURES: [FeatureDescription; 8] = [
    FeatureDescription {
        identifier: "threads",
        name: "threads",
        hint: "WebAssembly does not support them: use asyncio, or run it with --isolation container",
    },
    FeatureDescription {
        identifier: "processes",
        name: "processes",
        hint: "WebAssembly does not support them: call functions instead, or run it with --isolation container",
    },
    FeatureDescription {
        identifier: "sockets",
        name: "network sockets",
        hint: "grant the hosts with --net if it is a client; run servers and programs with other sockets with --isolation container",
    },
    FeatureDescription {
        identifier: "signals",
        name: "signals",
        hint: "WebAssembly does not support them: limit the run with --timeout, or run it with --isolation container",
    },
    FeatureDescription {
        identifier: "hashlib.scrypt",
        name: "hashlib.scrypt",
        hint: "use hashlib.pbkdf2_hmac, or run it with --isolation container",
    },
    FeatureDescription {
        identifier: "image codecs",
        name: "image codecs",
        hint: "save as PNG, GIF, BMP or TIFF, or run it with --isolation container --with pillow",
    },
    FeatureDescription {
        identifier: "font rendering",
        name: "font rendering",
        hint: "use ImageFont.load_default(), or run it with --isolation container --with pillow",
    },
    FeatureDescription {
        identifier: "native libraries",
        name: "native libraries",
        hint: "WebAssembly cannot load them, so ctypes cannot be used: run it with --isolation container",
    },
];

/// Returns true for a text that can be the name or address of a host, as `--net` takes it.
fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !text.is_empty() && text.len() <= 253 && !text.starts_with('-') && text.bytes().all(is_part)
}

/// Returns the kind of a host that is not a part of the public internet, if it is an address.
fn special_kind(host: &str) -> Option<AddressKind> {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = address.parse().ok().or_else(|| {
        let host: std::net::SocketAddr = host.parse().ok()?;
        Some(host.ip())
    });
    if host.split(':').next() == Some("metadata.google.internal") {
        return Some(AddressKind::Metadata);
    }
    AddressKind::of(address?).filter(|kind| *kind != AddressKind::Loopback)
}

/// Describes a feature that the program lacked, by the identifier in the prelude's report.
pub(super) fn describe(identifier: &str) -> Missing {
    if let Some(description) = FEATURES.iter().find(|description| description.identifier == identifier) {
        return Missing { what: description.name.to_owned(), hint: description.hint.to_owned() };
    }
    if let Some(module) = identifier.strip_prefix("module:") {
        return Missing::module(module);
    }
    if let Some(host) = identifier.strip_prefix("host:").filter(|host| is_host(host)) {
        let hint = match special_kind(host) {
            Some(kind) => format!("it is {kind}, so grant it only if you know what answers there: --net {host}"),
            None => format!("grant it with --net {host}"),
        };
        return Missing { what: format!("access to {host}"), hint };
    }
    if let Some(missing) = identifier.strip_prefix("npm:").and_then(Missing::npm_package) {
        return missing;
    }
    let (what, hint) = match identifier.split_once(':') {
        Some(("api", api)) => (
            format!("Node's {api}"),
            "the JavaScript runtime does not support it: run it in a container (--isolation container), which has Node",
        ),
        Some(("python", attribute)) => (
            format!("Python's {attribute}"),
            "WebAssembly does not support this system call: run it in a container (--isolation container)",
        ),
        Some(("library", module @ ("tkinter" | "turtle"))) => (
            format!("the module {module}"),
            "it shows windows, and programs in sandboxes have no display: print the results, or save images",
        ),
        Some(("library", module)) => (
            format!("the module {module}"),
            "this part of Python's library is not available in WebAssembly: run it in a container (--isolation container)",
        ),
        Some(("removed", module)) => (
            format!("the module {module}"),
            "it was removed from Python: use its replacement, or an older Python (--image python:3.11-slim)",
        ),
        Some(("deno", "imports")) => (
            Missing::IMPORTS_OF_URLS.to_owned(),
            "modules are files and packages, as in Node: add the package with --with and import it by its name, or run the program with Deno in a container",
        ),
        Some(("deno", "api")) => (
            Missing::API_OF_DENO.to_owned(),
            "programs have Node's: use node:fs, node:process and so on, or run the program with Deno in a container",
        ),
        Some(("bun", "api")) => (
            Missing::API_OF_BUN.to_owned(),
            "programs have Node's: use node:fs, node:process and so on, or run the program with Bun in a container",
        ),
        _ => (identifier.to_owned(), "it is not supported in this tier"),
    };
    Missing { what, hint: hint.to_owned() }
}
