"""The parts of a start that cells need."""
import builtins
import linecache
import sys
import types


def new_main(job):
    """Creates the module `__main__`."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__dict__.setdefault("__annotations__", {})
    sys.modules["__main__"] = main
    sys.argv = [""]
    return main


def cache_source(name, source):
    """Lets tracebacks show the lines of a cell."""
    text = source.decode("utf-8", "replace")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def flush():
    """Writes the output, and returns false if that failed."""
    flushed = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            flushed = False
    return flushed
