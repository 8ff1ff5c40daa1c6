//! The Python runtime's description and prelude, as they were when codebox was built.

/// `runtime.toml`.
pub(crate) const RUNTIME: &str = include_str!("../guest-runtimes/python/runtime.toml");

/// The prelude's modules in the order they are loaded; the first is the text that loads the others.
pub(crate) const PRELUDE: &[(&str, &str)] = &[
    ("boot", include_str!("../guest-runtimes/python/prelude/boot.py")),
    ("door", include_str!("../guest-runtimes/python/prelude/door.py")),
    ("missing", include_str!("../guest-runtimes/python/prelude/missing.py")),
    ("mend", include_str!("../guest-runtimes/python/prelude/mend.py")),
    ("loop", include_str!("../guest-runtimes/python/prelude/loop.py")),
    ("errors", include_str!("../guest-runtimes/python/prelude/errors.py")),
    ("start", include_str!("../guest-runtimes/python/prelude/start.py")),
    ("seeds", include_str!("../guest-runtimes/python/prelude/seeds.py")),
    ("rehearse", include_str!("../guest-runtimes/python/prelude/rehearse.py")),
    ("image", include_str!("../guest-runtimes/python/prelude/image.py")),
];
