"""Runs one job: makes the restored interpreter unique and current, then runs the program as `python` does."""
import atexit
import builtins
import json
import os
import sys
import time
import types

import _reactor
from _codebox import door, errors

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
    if job["cwd"] != "/work":
        os.chdir(job["cwd"])


def program(job, source):
    """Runs the program's text and returns its status; what it left for its end has not run yet."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    sys.path[:] = [job["path0"], *_LIBRARY]
    name = job["file"]
    if job["kind"] == "file":
        import importlib.machinery

        main.__file__ = name
        main.__cached__ = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
    else:
        main.__loader__ = importlib_builtin()
        _remember(name, source)
    try:
        code = compile(source, name, "exec", dont_inherit=True)
        exec(code, main.__dict__)
    except SystemExit as exc:
        return errors.status_of(exc)
    except BaseException as exc:
        return errors.uncaught(exc)
    return 0


def importlib_builtin():
    return sys.modules["_frozen_importlib"].BuiltinImporter


def _remember(name, source):
    """Lets tracebacks show the lines of a program that is in no file, as recent Pythons do for `-c`."""
    import linecache

    text = source.decode("utf-8", "replace")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def _finish(status):
    """What the interpreter does on its way out, with the same effect on the status."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    # 120 is what Python exits with when its last output could not be written.
    return status if flush() else 120


def flush():
    """Writes out what the streams hold; tells whether the output could be written."""
    flushed = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:
            flushed = stream is sys.stderr and flushed
    return flushed


def install():
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    # A line a time: output reaches whoever waits for it, and is there when a limit ends the program.
    sys.stdout.reconfigure(line_buffering=True)
    _reactor._run_turn = enter
