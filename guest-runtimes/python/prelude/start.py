"""Runs one job: makes the restored interpreter unique and current, then runs the program as `python` does."""
import atexit
import builtins
import gc
import io
import json
import linecache
import os
import sys
import time
import types

import _reactor
from _codebox import door, errors, missing, online

# What every program finds in its environment; the grants of a job are laid over it.
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

# What is built in, and what a plain `python` has loaded before a program starts: no file takes its place.
_EARLIER = frozenset(
    "__main__ _codebox _collections_abc _host _reactor _sitebuiltins abc codecs encodings genericpath io os posixpath "
    "site stat zipimport".split()
).union(sys.builtin_module_names)

# The files that hold what is not written yet.
_WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)

# The programs' own places on `sys.path`, which the image has not: they were looked at before there was a program.
_LIBRARY = [entry for entry in sys.path if entry]


def enter(*_ignored):
    """Takes the place of the reactor's own turn: one job a turn, its status raised as SystemExit."""
    head, _, source = door.job().partition(b"\n")
    # What `json.loads` calls in the end; the host wrote this.
    job, _ = _scan(head.decode(), 0)
    renew(job)
    raise SystemExit(_finish(program(job, source)))


def renew(job):
    """Whatever an image froze and each run has to have for itself."""
    modules = sys.modules
    # The states of `random` and `numpy.random` are the host's to fill: it was told where they stand.
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
        modules["tempfile"].tempdir = None
    if "logging" in modules:
        modules["logging"]._startTime = time.time_ns()
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = None
    # The image has ENVIRONMENT and nothing else.
    for name, value in job["env"].items():
        os.environ[name] = value
    sys.argv = list(job["argv"])
    sys.orig_argv = ["python", *sys.argv]
    if "net" in job:
        online.enter()
    elif job.get("packages"):
        online.show()
    if job["cwd"] != "/work":
        os.chdir(job["cwd"])


def program(job, source):
    """Runs the program's text and returns its status; what it left for its end has not run yet."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    sys.path[:] = [job["path0"], *_python_path(job["env"]), *_LIBRARY, *job.get("packages", ())]
    name = job["file"]
    if job["kind"] == "file":
        main.__file__ = name
        main.__cached__ = None
        main.__loader__ = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", name)
    else:
        main.__loader__ = sys.modules["_frozen_importlib"].BuiltinImporter
        _remember(name, source)
    if job.get("local"):
        _make_way(job["path0"])
    exc = _run(source, name, main.__dict__)
    # Handled out here, where it is no longer the current exception: a hook's own would be shown with it.
    try:
        if exc is None:
            return 0
        return errors.status_of(exc) if isinstance(exc, SystemExit) else errors.uncaught(exc)
    finally:
        # Its traceback leads to this frame: together they would keep the program's objects.
        del exc


def _run(source, name, space):
    try:
        exec(compile(source, name, "exec", dont_inherit=True), space)
    except BaseException as exc:
        return exc


def _python_path(env):
    path = env.get("PYTHONPATH")
    return dict.fromkeys(map(os.path.abspath, path.split(":"))) if path else ()


def _make_way(path0):
    """Forgets the image's modules in whose place a plain `python` would find the program's own files."""
    try:
        entries = os.listdir(path0)
    except OSError:
        return
    for entry in entries:
        name = entry.removesuffix(".py")
        if name not in sys.modules or name in _EARLIER or "." in name:
            continue
        # A directory without this file comes after a standard module.
        if name == entry and not os.path.exists(os.path.join(path0, entry, "__init__.py")):
            continue
        for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
            del sys.modules[known]


def _remember(name, source):
    """Lets tracebacks show the lines of a program that is in no file, as recent Pythons do for `-c`."""
    text = source.decode("utf-8", "replace")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def _finish(status):
    """What the interpreter does on its way out, with the same effect on the status."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    flushed = flush()
    try:
        _drop()
    except BaseException:
        pass
    flush()
    # 120 is what Python exits with when its last output could not be written.
    return status if flushed else 120


def _drop():
    """Ends what the program left, as an interpreter does when it takes its modules down: files are written.

    Nothing else of that can be seen, so a program that left nothing with a finaliser is spared it. The image's own
    objects are frozen, and so neither looked at nor collected.
    """
    sys.last_exc = sys.last_type = sys.last_value = sys.last_traceback = None
    # Streams that the program put there are objects of its own.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    left = gc.get_objects()
    if not any([_has_finaliser(kind) for kind in {type(one) for one in left}]):
        return
    _flush_files(left)
    del left
    missing.forget()
    # Once before anything is forgotten, as Python does: it also brings what survives into the order of its use.
    gc.collect()
    spaces = _forget_modules()
    # Finalisers run first, and find their module as it was.
    gc.collect()
    # What libraries hold on to, such as a hook or a class, keeps its module's names.
    for space in [held for held in gc.get_objects() if id(held) in spaces and type(held) is dict]:
        names = [name for name in space if isinstance(name, str) and name != "__builtins__"]
        for name in sorted(names, key=_is_public):
            space[name] = None
    gc.collect()


def _has_finaliser(kind):
    """Whether a type's objects do something when they end; asks the type's own metaclass nothing."""
    return any(["__del__" in _NAMESPACE(base) for base in _BASES(kind)])


def _forget_modules():
    """Forgets `__main__` and the modules of the program's own, and returns the identities of their namespaces."""
    spaces = set()
    names = list(reversed(sys.modules))
    if "__main__" not in names:
        return spaces
    # Newest first; what comes before `__main__` is the image's.
    for name in names[: names.index("__main__") + 1]:
        module = sys.modules[name]
        library = name in _EARLIER or str(getattr(module, "__file__", "")).startswith("/usr/local/lib/")
        if name == "__main__" or not library:
            spaces.add(id(getattr(module, "__dict__", None)))
            del sys.modules[name]
    return spaces


def _flush_files(objects):
    """Writes out what files hold: those of a cycle end in any order, the one that others write to perhaps first."""
    for file in objects:
        if issubclass(type(file), _WRITERS):
            try:
                file.flush()
            except Exception:
                pass


def _is_public(name):
    return not name.startswith("_") or name.startswith("__")


def flush():
    """Writes out what the streams hold; tells whether the output could be written."""
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
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    # A line a time: output reaches whoever waits for it, and is there when a limit ends the program.
    sys.stdout.reconfigure(line_buffering=True)
    _reactor._run_turn = enter
