"""Uncaught exceptions: shown as Python shows them, without frames of ours, and told to the host."""
import sys
import traceback

from _codebox import door, frames, missing

# Most text of a message or traceback that is sent, and of an exception's name; what is printed is not cut.
_TEXT = 64 << 10
_NAME = 1024


def _without_ours(tb):
    while tb is not None and frames.is_ours(tb.tb_frame):
        tb = frames.following(tb)
    kept = tb
    while tb is not None:
        following = frames.following(tb)
        while following is not None and frames.is_ours(following.tb_frame):
            following = frames.following(following)
        if following is not frames.following(tb):
            frames.follow(tb, following)
        tb = following
    return kept


def _clean(exc, seen):
    if exc is None or id(exc) in seen:
        return
    seen.add(id(exc))
    exc.__traceback__ = _without_ours(exc.__traceback__)
    _clean(exc.__cause__, seen)
    _clean(exc.__context__, seen)
    for inner in getattr(exc, "exceptions", ()) if isinstance(exc, BaseExceptionGroup) else ():
        _clean(inner, seen)


def status_of(exc):
    """The exit status of a SystemExit, whose message, if it has one, is printed."""
    code = exc.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int.__int__(code)
        # What no C long holds counts as -1.
        return (code if -(1 << 63) <= code < 1 << 63 else -1) & 0xFFFFFFFF
    _say(code)
    return 1


def _say(what):
    """Prints to standard error, or to what it was at first where the program has taken it away."""
    try:
        print(what, file=getattr(sys, "stderr", None) or sys.__stderr__)
    except BaseException:
        pass


def uncaught(exc):
    """Shows an exception through `sys.excepthook`, tells the host and returns the exit status."""
    _clean(exc, set())
    tb = exc.__traceback__
    sys.last_exc = exc
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, tb
    try:
        _tell(exc)
        _tell_lacking(exc, set())
    except Exception:
        # Too little memory or too few descriptors to say more; the name is what limits are told by.
        door.tell("error", name=type(exc).__name__, value="", traceback="", line=None)
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    try:
        hook(type(exc), exc, tb)
    except SystemExit as again:
        return status_of(again)
    except BaseException as second:
        second.__traceback__ = _without_ours(second.__traceback__)
        _say("Error in sys.excepthook:")
        sys.__excepthook__(type(second), second, second.__traceback__)
        _say("\nOriginal exception was:")
        sys.__excepthook__(type(exc), exc, tb)
    return 130 if isinstance(exc, KeyboardInterrupt) else 1


def _tell_lacking(exc, seen):
    """What the errors that led to this one say the program lacked."""
    if exc is None or id(exc) in seen:
        return
    seen.add(id(exc))
    missing.ended(exc)
    _tell_lacking(exc.__cause__, seen)
    if not exc.__suppress_context__:
        _tell_lacking(exc.__context__, seen)


def _tell(exc):
    lines = traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=200, compact=True).format()
    text = "".join(lines)
    line = None
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None) or "<string>"
    if isinstance(exc, SyntaxError) and exc.__traceback__ is None:
        line = exc.lineno
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename in (path, "<string>", "<stdin>"):
            line = tb.tb_lineno
        tb = tb.tb_next
    try:
        value = str(exc)
    except Exception:
        value = "<exception str() failed>"
    door.tell(
        "error",
        name=_sendable(type(exc).__name__[:_NAME]),
        value=_sendable(value[:_TEXT]),
        traceback=_sendable(text[-_TEXT:]),
        line=line,
    )


def _sendable(text):
    """Spells out lone surrogates, which no message can hold."""
    return text.encode("utf-8", "backslashreplace").decode()
