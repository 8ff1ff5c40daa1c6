//! Modules that programs in a container can import: `codebox`, with the host tools of the run.

/// Directory of modules of Python, which is added to `PYTHONPATH`.
pub(crate) const PYTHON_DIR: &str = "/.codebox/hooks/python";

/// Option of Node that makes the module known.
pub(crate) const NODE_OPTION: &str = "--require=/.codebox/hooks/node/preload.cjs";

/// Files below the directory of hooks, with their texts. The tools of Python are those of the interpreter in WebAssembly, over another channel to
/// the host.
pub(crate) const FILES: [(&str, &str); 7] = [
    ("python/codebox.py", include_str!("guest_modules/codebox.py")),
    ("python/_host.py", include_str!("guest_modules/_host.py")),
    ("python/_codebox/host.py", include_str!("../../../guest-runtimes/python/prelude/host.py")),
    ("python/_codebox/tools.py", include_str!("../../../guest-runtimes/python/prelude/tools.py")),
    ("node/preload.cjs", include_str!("guest_modules/preload.cjs")),
    ("node/resolve.mjs", include_str!("guest_modules/resolve.mjs")),
    ("node/codebox.cjs", include_str!("guest_modules/codebox.cjs")),
];
