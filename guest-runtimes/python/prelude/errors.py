"""Uncaught exceptions: printed as by Python, without frames of the prelude, and reported to the host."""
import sys
import traceback

from _codebox import frames, host, missing

# Most characters of a message or traceback and of an exception's name that are sent; printed text is not truncated.
_TEXT = 64 << 10
_NAME = 1024

# Most calls that are sent.
_FRAMES = 50


# File name of the text that runs.
_program = "<string>"


def set_program(name):
    """Sets the file name of the text that runs."""
    global _program
    _program = name


def _strip_prelude_frames(tb):
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


# Attributes of the base class: a class of the program may override these names.
_cause, _context = BaseException.__cause__.__get__, BaseException.__context__.__get__
_is_context_hidden = BaseException.__suppress_context__.__get__
_traceback, _set_traceback = BaseException.__traceback__.__get__, BaseException.__traceback__.__set__
_members = BaseExceptionGroup.exceptions.__get__


def _linked(exc, hidden):
    """Yields an exception and all exceptions that it links to, each once; if `hidden`, also suppressed contexts. The
    length of a chain is unlimited."""
    waiting, seen = [exc], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if hidden or not _is_context_hidden(one):
            waiting.append(_context(one))
        waiting.append(_cause(one))
        if issubclass(type(one), BaseExceptionGroup):
            waiting.extend(_members(one))


def _clean(exc):
    for one in _linked(exc, True):
        _set_traceback(one, _strip_prelude_frames(_traceback(one)))


def status_of(exc):
    """Returns the exit status of a SystemExit, and prints its message if it has one."""
    code = exc.code
    if code is None:
        return 0
    status = 1
    if isinstance(code, int):
        code = int.__int__(code)
        # A value that does not fit into a C long counts as -1.
        status = (code if -(1 << 63) <= code < 1 << 63 else -1) & 0xFFFFFFFF
    else:
        _flush_output()
        _print_stderr(code)
    if status:
        _report_missing(exc)
    return status


def _flush_output():
    """Has unfinished output come before a message, as in a native interpreter."""
    try:
        sys.stdout.flush()
    except BaseException:
        pass


def _print_stderr(what):
    """Prints to standard error, or to the original stream if the program has removed it."""
    try:
        print(what, file=getattr(sys, "stderr", None) or sys.__stderr__)
    except BaseException:
        pass


def uncaught(exc):
    """Shows an exception through `sys.excepthook`, reports it to the host and returns the exit status."""
    try:
        _clean(exc)
    except Exception:
        pass
    tb = _traceback(exc)
    sys.last_exc = exc
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, tb
    try:
        _report(exc)
    except BaseException:
        # Memory or descriptors do not suffice for the full report; the host recognises limits by the name.
        host.notify("error", name=type(exc).__name__, value="", traceback="", line=None)
    _report_missing(exc)
    _flush_output()
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    try:
        hook(type(exc), exc, tb)
    except SystemExit as again:
        return status_of(again)
    except BaseException as second:
        second.__traceback__ = _strip_prelude_frames(second.__traceback__)
        _print_stderr("Error in sys.excepthook:")
        sys.__excepthook__(type(second), second, second.__traceback__)
        _print_stderr("\nOriginal exception was:")
        sys.__excepthook__(type(exc), exc, tb)
    return 130 if isinstance(exc, KeyboardInterrupt) else 1


def _report_missing(exc):
    """Reports the features that the program lacked, according to the errors that led to this one."""
    try:
        for one in _linked(exc, False):
            missing.report_missing(one)
    except BaseException:
        # A failed report does not affect the error.
        pass


def _report(exc):
    described = traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=-200, compact=True)
    text = "".join(described.format())
    line = None
    if isinstance(exc, SyntaxError) and exc.__traceback__ is None:
        line = exc.lineno
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == _program:
            line = tb.tb_lineno
        tb = tb.tb_next
    try:
        value = str(exc)
    except BaseException:
        value = "<exception str() failed>"
    host.notify(
        "error",
        name=_sendable(type(exc).__name__[:_NAME]),
        value=_sendable(value[:_TEXT]),
        traceback=_sendable(text[-_TEXT:]),
        line=line,
        frames=_frames(exc, described),
    )


def _frames(exc, described):
    """Returns the calls that led to an exception, the innermost last."""
    frames = [_frame(one.filename, one.lineno, one.name, one.line) for one in described.stack[-_FRAMES:]]
    if issubclass(type(exc), SyntaxError) and described.lineno:
        # The place of the error in the text, which is no call.
        frames.append(_frame(described.filename, int(described.lineno), None, described.text))
    return frames


def _frame(file, line, function, code):
    code = (code or "").strip().partition("\n")[0]
    return {
        "file": _sendable(str(file)[:_NAME]),
        "line": max(line or 0, 0),
        "function": function and _sendable(function[:_NAME]),
        "code": _sendable(code[:_NAME]) or None,
    }


def _sendable(text):
    """Escapes lone surrogates, which a message cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode()
