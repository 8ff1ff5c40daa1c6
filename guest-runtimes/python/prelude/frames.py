"""Hides the frames of this package, and of the reactor that calls it, from programs.

The interpreter's own C code skips frames whose file names contain both "importlib" and "_bootstrap" when it looks for
the code that a warning is about. All files of this package have such names. Programs access frames in Python through
the attributes and functions that are replaced here.
"""
import sys
import types

from _codebox import patches

# Prefix of the file names of this package; `boot` compiles its modules with it.
MARK = "<codebox"

_back = types.FrameType.f_back.__get__
_following = types.TracebackType.tb_next.__get__
_follow = types.TracebackType.tb_next.__set__
_frame = sys._getframe

_MOST = 100


def is_ours(frame):
    """Returns true for a frame of this package or of the reactor."""
    return frame.f_code.co_filename.startswith(MARK)


def following(tb):
    """Returns the next entry of a traceback, including those of this package."""
    return _following(tb)


def follow(tb, entry):
    """Sets the next entry of a traceback."""
    _follow(tb, entry)


def current():
    """Returns the frame of the calling function."""
    return _frame(1)


def caller(frame):
    """Returns the frame that called this one, including those of this package."""
    return _back(frame)


def outer(frame):
    """The frame that called this one, without those of this package."""
    frame = _back(frame)
    while frame is not None and frame.f_code.co_filename.startswith(MARK):
        frame = _back(frame)
    return frame


def _tb_next(tb):
    entry = _following(tb)
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith(MARK):
        entry = _following(entry)
    return entry


def _getframe(depth=0, /):
    frame = _frame(1)
    if frame.f_code.co_filename.startswith(MARK):
        frame = outer(frame)
    while depth > 0 and frame is not None:
        frame = outer(frame)
        depth -= 1
    if frame is None:
        raise ValueError("call stack is not deep enough")
    return frame


def _getframemodulename(depth=0):
    frame = _frame(1)
    while depth > 0 and frame is not None:
        frame = outer(frame)
        depth -= 1
    return None if frame is None else frame.f_globals.get("__name__")


def _dump_traceback(file=None, all_threads=True):
    import os
    import threading

    if file is None:
        file = sys.stderr
    fd = file if isinstance(file, int) else file.fileno()
    if not isinstance(file, int):
        file.flush()
    lines = ["Stack (most recent call first):"]
    if all_threads:
        lines = [f"Current thread 0x{threading.get_ident():016x} (most recent call first):"]
    frame = _frame(1)
    while frame is not None:
        if len(lines) > _MOST:
            lines.append("  ...")
            break
        code = frame.f_code
        # A frame without a line is at the beginning of its code.
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno or "???"} in {code.co_name}')
        frame = outer(frame)
    os.write(fd, ("\n".join(lines) + "\n").encode("ascii", "backslashreplace"))


def install(reactor):
    """Hides the frames; `reactor` is the module whose `turn` calls this package."""
    import faulthandler

    code = reactor.turn.__code__
    reactor.turn.__code__ = code.replace(co_filename=install.__code__.co_filename)
    patches.replace_in_type(types.FrameType, f_back=property(outer))
    patches.replace_in_type(types.TracebackType, tb_next=property(_tb_next, _follow))
    patches.install(sys, "_getframe", _getframe)
    patches.install(sys, "_getframemodulename", _getframemodulename)
    patches.install(faulthandler, "dump_traceback", _dump_traceback)
