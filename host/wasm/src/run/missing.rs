//! Descriptions of the features that a guest can lack, and hints on how to get them.

use codebox_core::Missing;

/// A feature that a prelude reports, its name in reports, and a hint for the user.
struct Lack {
    word: &'static str,
    name: &'static str,
    hint: &'static str,
}

/// The features that preludes report by an identifier of their own.
const TABLE: [Lack; 8] = [
    Lack { word: "threads", name: "threads", hint: "WebAssembly has none: use asyncio, or run it where threads exist" },
    Lack {
        word: "processes",
        name: "processes",
        hint: "WebAssembly has none: call functions instead, or run it where processes exist",
    },
    Lack {
        word: "sockets",
        name: "network sockets",
        hint: "grant the hosts with --net if it is a client; servers and other sockets need a container",
    },
    Lack {
        word: "signals",
        name: "signals",
        hint: "WebAssembly has none: bound the run with --timeout, or run it with --isolation container",
    },
    Lack {
        word: "hashlib.scrypt",
        name: "hashlib.scrypt",
        hint: "use hashlib.pbkdf2_hmac, or run it with --isolation container",
    },
    Lack {
        word: "image codecs",
        name: "image codecs",
        hint: "save as PNG, GIF, BMP or TIFF, or run it with --isolation container --with pillow",
    },
    Lack {
        word: "font rendering",
        name: "font rendering",
        hint: "use ImageFont.load_default(), or run it with --isolation container --with pillow",
    },
    Lack {
        word: "native libraries",
        name: "native libraries",
        hint: "WebAssembly loads none, so ctypes has nothing to call: run it with --isolation container",
    },
];

/// Describes a feature that the program lacked, by the identifier in the prelude's report.
pub(super) fn describe(word: &str) -> Missing {
    if let Some(lack) = TABLE.iter().find(|lack| lack.word == word) {
        return Missing { what: lack.name.to_owned(), hint: lack.hint.to_owned() };
    }
    if let Some(module) = word.strip_prefix("module:") {
        return Missing::module(module);
    }
    let (what, hint) = match word.split_once(':') {
        Some(("api", api)) => (
            format!("Node's {api}"),
            "the JavaScript runtime does not have it: run it in a container (--isolation container), where Node has",
        ),
        Some(("python", attribute)) => (
            format!("Python's {attribute}"),
            "WebAssembly has no such system call: run it in a container (--isolation container)",
        ),
        Some(("library", module)) => (
            format!("the module {module}"),
            "the WebAssembly runtime lacks this part of Python's library: run it in a container (--isolation container)",
        ),
        Some(("removed", module)) => (
            format!("the module {module}"),
            "Python no longer has it: use what replaces it, or an older Python (--image python:3.11-slim)",
        ),
        _ => (word.to_owned(), "this tier does not have it"),
    };
    Missing { what, hint: hint.to_owned() }
}
