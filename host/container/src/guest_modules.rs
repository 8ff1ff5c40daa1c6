//! Modules of programs in a container: `codebox`, with the host tools of the run, and the interpreters of sessions.

use codebox_core::{Adapter, Language};

/// Directory of modules of Python, which is added to `PYTHONPATH`.
pub(crate) const PYTHON_DIR: &str = "/.codebox/hooks/python";

/// Option of Node that makes the module known.
pub(crate) const NODE_OPTION: &str = "--require=/.codebox/hooks/node/preload.cjs";

/// Returns the file that runs the cells of a session; `None` for languages without sessions.
pub(crate) fn session_file(language: &Language) -> Option<&'static str> {
    match language.adapter()? {
        Adapter::Python => Some("/.codebox/hooks/session/session.py"),
        Adapter::Node => Some("/.codebox/hooks/node/session.cjs"),
        Adapter::Lua => None,
    }
}

/// Files below the directory of hooks, with their texts. The tools and cells of Python are those of the interpreter in WebAssembly, over another
/// channel to the host.
pub(crate) const FILES: [(&str, &str); 17] = [
    ("python/codebox.py", include_str!("guest_modules/codebox.py")),
    ("python/_host.py", include_str!("guest_modules/_host.py")),
    ("python/_codebox/host.py", include_str!("../../../guest-runtimes/python/prelude/host.py")),
    ("python/_codebox/tools.py", include_str!("../../../guest-runtimes/python/prelude/tools.py")),
    ("session/session.py", include_str!("guest_modules/session/session.py")),
    ("python/_codebox/cells.py", include_str!("../../../guest-runtimes/python/prelude/cells.py")),
    ("python/_codebox/results.py", include_str!("../../../guest-runtimes/python/prelude/results.py")),
    ("python/_codebox/notebooks.py", include_str!("../../../guest-runtimes/python/prelude/notebooks.py")),
    ("python/_codebox/hooks.py", include_str!("guest_modules/hooks.py")),
    ("python/_codebox/start.py", include_str!("guest_modules/start.py")),
    ("python/_codebox/errors.py", include_str!("guest_modules/errors.py")),
    ("node/session.cjs", include_str!("guest_modules/session.cjs")),
    ("node/imports.mjs", include_str!("../../../guest-runtimes/javascript/prelude/src/imports.js")),
    ("node/preload.cjs", include_str!("guest_modules/preload.cjs")),
    ("node/resolve.mjs", include_str!("guest_modules/resolve.mjs")),
    ("node/request.cjs", include_str!("guest_modules/request.cjs")),
    ("node/codebox.cjs", include_str!("guest_modules/codebox.cjs")),
];
