//! Built-in modules of Node.

/// Names of Node's built-in modules. A path below a module, such as `fs/promises`, belongs to that module.
const BUILTIN_MODULES: &str = "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel \
    dns domain events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline \
    repl stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib";

/// Modules that require the prefix `node:`, since a package may have the bare name.
const PREFIX_ONLY_MODULES: &str = "sea sqlite test";

/// Returns the built-in module of Node that a text names in place of a package: `fs` or `node:fs`.
///
/// Returns `None` for `fs@latest`: with a version, the name refers to the package.
#[must_use]
pub(crate) fn builtin_module(text: &str) -> Option<&str> {
    let (module, more) = match text.strip_prefix("node:") {
        Some(module) => (module, PREFIX_ONLY_MODULES),
        None => (text, ""),
    };
    let first = module.split('/').next();
    let mut known = BUILTIN_MODULES.split_whitespace().chain(more.split_whitespace());
    known.any(|known| Some(known) == first).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_builtin_modules_from_packages() {
        for (text, module) in
            [("fs", "fs"), ("node:path", "path"), ("fs/promises", "fs/promises"), ("node:test", "test")]
        {
            assert_eq!(builtin_module(text), Some(module), "{text}");
        }
        for text in ["lodash", "fs-extra", "fs@latest", "test", "@types/fs", "node:lodash", "FS", ""] {
            assert_eq!(builtin_module(text), None, "{text}");
        }
    }
}
