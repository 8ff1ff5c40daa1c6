"""Exceptions that no cell has caught."""
import os
import sys
import traceback

_PRELUDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def set_program(name):
    """Starts a cell."""


def status_of(exc):
    """Returns the exit status of a SystemExit, and prints its message if it has one."""
    if exc.code is None:
        return 0
    if isinstance(exc.code, int):
        return exc.code & 0xFFFFFFFF
    print(exc.code, file=sys.stderr)
    return 1


def uncaught(exc):
    """Shows an exception through `sys.excepthook`, and returns the exit status."""
    seen = set()
    waiting = [exc]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        tb = one.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_PRELUDE):
            tb = tb.tb_next
        one.__traceback__ = tb
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, exc.__traceback__
    if sys.excepthook is sys.__excepthook__:
        # In older versions of Python, the built-in function reads files and does not know the lines of cells.
        traceback.print_exception(exc)
    else:
        sys.excepthook(type(exc), exc, exc.__traceback__)
    return 130 if isinstance(exc, KeyboardInterrupt) else 1
