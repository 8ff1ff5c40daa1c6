"""Runs the cells of a session: texts that share one `__main__`, as in a notebook."""
import _ast
import asyncio
import builtins
import functools
import gc
import io
import linecache
import random
import sys

from _codebox import errors, hooks, host, results, start, tools

# A cell may replace them.
_isinstance, _iter, _len, _next, _sum = isinstance, iter, len, next, sum

# Flag of the code of a text that awaits at its top level.
_IS_COROUTINE = 0x80

# The module of all cells, and the number of those that the host has not numbered.
_main = None
_count = 0

# True after the first cell.
_is_used = False

# True if the cell before had standard input, which may have left some unread in the buffer; None if no cell had any.
_had_input = None

# Texts kept for tracebacks, newest last: at most this number of bytes.
_MOST_TEXT = 4 << 20
_texts = {}

# Event loop of cells that await. Tasks that a cell leaves behind go on when a later cell awaits.
_loop = None


def run(job, source):
    """Runs a cell and returns its status. Its exception ends the cell alone."""
    global _main, _count, _had_input, _is_used
    if job["kind"] == "close_caches":
        return close_caches()
    results.renew(job)
    tools.renew()
    if job.get("input") or _had_input:
        _renew_input()
        if _had_input is None:
            hooks.after_import("getpass", _hide_passwords)
        _had_input = bool(job.get("input"))
    if job.get("restored"):
        start.renew(job)
        if _is_used:
            _make_unique()
    _is_used = True
    if _main is None:
        _main = start.new_main(job)
        _main.__loader__ = sys.modules["_frozen_importlib"].BuiltinImporter
    number = job.get("number")
    if number is None:
        _count += 1
        number = _count
    name = f"<cell {number}>" if job["file"].startswith("<") else job["file"]
    _keep_text(name, source)
    errors.set_program(name)
    exc = _run(source, name)
    value = results.send_last(_main.__dict__)
    results.close_figures()
    # Cells that are not counted leave the last value.
    if value is not None and number:
        builtins._ = value
    try:
        if exc is None:
            status = 0
        elif _isinstance(exc, SystemExit):
            status = errors.status_of(exc)
        else:
            status = errors.uncaught(exc)
    finally:
        del exc
    # Python exits with 120 if its last output could not be written.
    return status if start.flush() else 120


def _hide_passwords(module):
    """Has the client of a cell hide what is typed for `getpass`, if it can."""
    shown = module.getpass

    @functools.wraps(shown)
    def getpass(prompt="Password: ", stream=None, **options):
        try:
            host.call("input_mode", mode="hidden")
        except Exception:
            return shown(prompt, stream, **options)
        try:
            return input(prompt)
        finally:
            host.notify("input_mode", mode="lines")

    module.getpass = getpass


def _renew_input():
    """Replaces the standard input, whose buffer has data of an earlier cell or has seen the end."""
    old = sys.__stdin__
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    new = io.TextIOWrapper(io.BufferedReader(raw), encoding=old.encoding, errors=old.errors)
    new.mode = "r"
    if sys.stdin is old:
        sys.stdin = new
    sys.__stdin__ = new


def _run(source, name):
    try:
        code = results.compile_program(source, name, _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        # Of a coroutine, the call returns the object that has to be awaited.
        awaited = eval(code, _main.__dict__)
        if code.co_flags & _IS_COROUTINE:
            return _complete(_await(awaited))
    except BaseException as exc:
        return exc


def _complete(awaited):
    """Runs the event loop until a cell has ended, also if the loop is interrupted."""
    loop = _event_loop()
    task = loop.create_task(awaited)
    try:
        return loop.run_until_complete(task)
    except BaseException as exc:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except BaseException:
            pass
        return exc


async def _await(coroutine):
    """Awaits a cell and returns its exception, whose traceback then lacks the calls of the event loop."""
    try:
        await coroutine
    except BaseException as exc:
        return exc


def _event_loop():
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_loop)
    return _loop


def _keep_text(name, source):
    """Lets tracebacks show the lines of cells, without the oldest ones if the texts are long."""
    start.cache_source(name, source)
    _texts[name] = _len(source)
    while _len(_texts) > 1 and _sum(_texts.values()) > _MOST_TEXT:
        oldest = _next(_iter(_texts))
        del _texts[oldest]
        linecache.cache.pop(oldest, None)


def close_caches():
    """Closes the files of fonts that matplotlib keeps open, and opens again when it needs them."""
    functions = []
    if "matplotlib" in sys.modules:
        manager, text = (sys.modules.get("matplotlib." + name) for name in ("font_manager", "text"))
        functions = [
            getattr(manager, "_get_font", None),
            getattr(text, "_get_text_metrics_with_cache_impl", None),
            getattr(text, "_get_text_metrics_function", None),
        ]
    for function in functions:
        if hasattr(function, "cache_clear"):
            function.cache_clear()
    gc.collect()
    return 0


def _make_unique():
    """Renews the random numbers of a session that was restored, perhaps more than once from the same state."""
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
