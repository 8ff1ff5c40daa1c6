"""Runs one job: resets the restored interpreter's per-run state, then runs the program as `python` does."""
import atexit
import builtins
import errno
import gc
import io
import json
import linecache
import os
import sys
import time
import types

import _reactor
from _codebox import draws, errors, host, missing, network, results, tools

# Environment of every program, which the grants of a job extend and override.
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "PATH": "/usr/local/bin",
    "PYTHONTZPATH": "",
    "PYTHONUTF8": "1",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
}

_scan = json.JSONDecoder().scan_once

_BASES = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__

# Built-in modules, and modules that a plain `python` loads before a program starts: no file replaces them.
_PRELOADED = frozenset(
    "__main__ _codebox _collections_abc _host _reactor _sitebuiltins abc codecs encodings genericpath io os posixpath "
    "site stat zipimport".split()
).union(sys.builtin_module_names)

# Function that runs a cell of a session; set by `install`, because it uses this module.
run_cell = None

# Types of files that hold unwritten data.
_WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)

# Entries of `sys.path` without those of programs, which were searched before there was a program.
_LIBRARY = [entry for entry in sys.path if entry]


def enter(*_ignored):
    """Replaces the reactor's own turn: runs one job per turn and raises its status as SystemExit."""
    head, _, source = host.job().partition(b"\n")
    # The function that `json.loads` calls in the end; the host wrote the text.
    job, _ = _scan(head.decode(), 0)
    if job["kind"] in ("cell", "close_caches"):
        raise SystemExit(run_cell(job, source))
    renew(job)
    raise SystemExit(_finish(program(job, source)))


def renew(job):
    """Resets the state that an image froze and that each run needs for itself."""
    modules = sys.modules
    # The host fills the states of `random` and `numpy.random`, whose location `seeds` has reported.
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
        modules["tempfile"].tempdir = None
    if "logging" in modules:
        modules["logging"]._startTime = time.time_ns()
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = None
    draws.renew()
    results.renew(job)
    tools.renew()
    # The image has ENVIRONMENT and no other variables.
    for name, value in job["env"].items():
        os.environ[name] = value
    if "terminal" in job:
        _use_terminal(job["terminal"])
    sys.argv = list(job["argv"])
    sys.orig_argv = ["python", *sys.argv]
    if "net" in job:
        network.enable_sockets()
    elif job.get("packages"):
        network.enable_ssl_import()
    if job["cwd"] != "/work":
        os.chdir(job["cwd"])


def _use_terminal(size):
    """Gives programs the size of the terminal, which has no system call here."""

    def get_terminal_size(fd=1, /):
        if not os.isatty(fd):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        try:
            return os.terminal_size(json.loads(host.call("terminal_size")))
        except Exception:
            # The size at the start of the program.
            return os.terminal_size(size)

    os.get_terminal_size = get_terminal_size


def program(job, source):
    """Runs the program's text and returns its status; functions registered for the program's end have not run yet."""
    main = new_main(job)
    name = job["file"]
    errors.set_program(name)
    if job["kind"] == "file":
        main.__file__ = name
        main.__cached__ = None
        main.__loader__ = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", name)
    else:
        main.__loader__ = sys.modules["_frozen_importlib"].BuiltinImporter
        cache_source(name, source)
    if job.get("local"):
        _unload_shadowed_modules(job["path0"])
    exc = run_text(source, name, main.__dict__)
    results.send_last(main.__dict__)
    # Handled outside of `run_text`, where it is no longer the current exception and therefore not the context of a hook's
    # own.
    try:
        if exc is None:
            return 0
        return errors.status_of(exc) if isinstance(exc, SystemExit) else errors.uncaught(exc)
    finally:
        # The traceback refers to this frame; the reference cycle would keep the program's objects alive.
        del exc


def new_main(job):
    """Creates the module `__main__`, and sets the search path."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    sys.path[:] = search_path(job)
    return main


def search_path(job):
    """Returns the directories that a program's imports search."""
    return [job["path0"], *_python_path(job["env"]), *_LIBRARY, *job.get("packages", ())]


def run_text(source, name, space):
    """Runs a text and returns the exception that ended it, if any."""
    try:
        exec(results.compile_program(source, name), space)
    except BaseException as exc:
        return exc


def _python_path(env):
    path = env.get("PYTHONPATH")
    return dict.fromkeys(map(os.path.abspath, path.split(":"))) if path else ()


def _unload_shadowed_modules(path0):
    """Removes the image's modules for which a plain `python` would find the program's own files."""
    try:
        entries = os.listdir(path0)
    except OSError:
        return
    for entry in entries:
        name = entry.removesuffix(".py")
        if name not in sys.modules or name in _PRELOADED or "." in name:
            continue
        # A directory without this file comes after a standard module.
        if name == entry and not os.path.exists(os.path.join(path0, entry, "__init__.py")):
            continue
        for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
            del sys.modules[known]


def cache_source(name, source):
    """Lets tracebacks show the lines of a program without a file, as recent Pythons do for `-c`."""
    text = source.decode("utf-8", "replace")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def _finish(status):
    """Does what the interpreter does on exit, with the same effect on the status."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    flushed = flush()
    try:
        _finalize_objects()
    except BaseException:
        pass
    flush()
    # Python exits with 120 if its last output could not be written.
    return status if flushed else 120


def _finalize_objects():
    """Finalises the program's objects, as an interpreter does when it clears its modules: files are written.

    The rest of that has no visible effect, so it is skipped for a program that left no object with a finaliser. The
    image's own objects are frozen, and therefore neither visited nor collected.
    """
    sys.last_exc = sys.last_type = sys.last_value = sys.last_traceback = None
    # Streams that the program installed there are its own objects.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    left = gc.get_objects()
    if not any([has_finaliser(kind) for kind in {type(one) for one in left}]):
        return
    _flush_files(left)
    del left
    missing.forget()
    # Collected once before modules are removed, as in Python, which also puts the survivors in the order of their use.
    gc.collect()
    spaces = _forget_modules()
    # Finalisers run first, with their module intact.
    gc.collect()
    # References from libraries, such as a hook or a class, keep a module's names alive.
    for space in [held for held in gc.get_objects() if id(held) in spaces and type(held) is dict]:
        names = [name for name in space if isinstance(name, str) and name != "__builtins__"]
        for name in sorted(names, key=_is_public):
            space[name] = None
    gc.collect()


def has_finaliser(kind):
    """Returns true if objects of a type have a finaliser, without calling the type's own metaclass."""
    return any(["__del__" in _NAMESPACE(base) for base in _BASES(kind)])


def _forget_modules():
    """Removes `__main__` and the program's own modules, and returns the identities of their namespaces."""
    spaces = set()
    names = list(reversed(sys.modules))
    if "__main__" not in names:
        return spaces
    # Newest first; modules before `__main__` are the image's.
    for name in names[: names.index("__main__") + 1]:
        module = sys.modules[name]
        library = name in _PRELOADED or str(getattr(module, "__file__", "")).startswith("/usr/local/lib/")
        if name == "__main__" or not library:
            spaces.add(id(getattr(module, "__dict__", None)))
            del sys.modules[name]
    return spaces


def _flush_files(objects):
    """Writes out the data that files hold: the files of a cycle are finalised in any order, an underlying file perhaps
    first."""
    for file in objects:
        if issubclass(type(file), _WRITERS):
            try:
                file.flush()
            except Exception:
                pass


def _is_public(name):
    return not name.startswith("_") or name.startswith("__")


def flush():
    """Writes out the data that the streams hold; returns true if the output could be written."""
    flushed = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:
            flushed = name == "stderr" and flushed
    return flushed


def install():
    global run_cell
    import _sitebuiltins

    from _codebox import cells

    run_cell = cells.run
    results.install()
    tools.install()

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    # Line buffering: output arrives at once, and is complete when a limit ends the program.
    sys.stdout.reconfigure(line_buffering=True)


def take_turns():
    """Makes every later turn of the reactor a job."""
    _reactor._run_turn = enter
