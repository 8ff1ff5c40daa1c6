"""Features that this interpreter lacks: the error that a program expects, and a report to the host with the reason.

Each hook reports before it raises, so that the host learns from the runtime itself, and not from the program's output,
which feature the program used.
"""
import errno
import importlib
import re
import sys
import time
import types

from _codebox import frames, host, patches, unsupported


# Errors of the prelude that were raised where a library can cope with them, newest last.
_tolerated_errors = []

# Functions of the standard library that try a feature and do without it if that fails.
_ATTEMPTS = ("find_library", "getfqdn", "getnode")


def unsupported_error(what, exc):
    """Reports a feature that the program used, and returns the error to raise.

    A library that tries a feature while it is imported, or in one of `_ATTEMPTS`, usually does without it; that is
    reported only if the error ends the program.
    """
    if _probing():
        return optional(what, exc)
    host.notify("missing", what=what)
    return exc


def optional(what, exc):
    """Returns the error to raise for a feature that programs do without; it is reported only if the error ends a
    program."""
    _tolerated_errors.append((exc, what))
    del _tolerated_errors[:-8]
    return exc


def _probing():
    """Returns true if the import machinery or one of `_ATTEMPTS` is nearer on the stack than the program's code."""
    frame = frames.current()
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith(("/usr/local/lib/", frames.MARK, "<frozen ")):
            return False
        if frame.f_code.co_name in _ATTEMPTS:
            return True
        frame = frames.caller(frame)
    return False


def forget():
    """Releases the errors, whose tracebacks hold the program's objects."""
    _tolerated_errors.clear()


def report_missing(exc):
    """Reports the features that the program lacked when `exc` ended it."""
    what = _module(exc.name) if issubclass(type(exc), ModuleNotFoundError) else _attribute(exc)
    if what:
        host.notify("missing", what=what)
    raised_in = _file_of(exc)
    for kind, pattern, part, what in _endings:
        if kind == type(exc).__name__ and part in raised_in and pattern.search(str(exc)):
            host.notify("missing", what=what)
    for known, what in _tolerated_errors:
        if known is exc:
            host.notify("missing", what=what)


def _module(name):
    """Returns the word for a module that was not found, or None."""
    if type(name) is not str or not name:
        return None
    top = name.partition(".")[0]
    if top in unsupported.MODULES:
        return unsupported.MODULES[top]
    if top in unsupported.REMOVED:
        return "removed:" + top
    if top not in sys.stdlib_module_names:
        # A package that was found lacks this submodule.
        return "module:" + (name if top in sys.modules else top)
    # Otherwise, a part of the library that other systems have or that no system has.
    return None if top in sys.modules or top in unsupported.ELSEWHERE else "library:" + top.removeprefix("_")


def _attribute(exc):
    """Returns the word for an attribute of the library that was not found, or None."""
    if type(exc) is AttributeError and type(exc.obj) is types.ModuleType:
        module, name = vars(exc.obj).get("__name__"), exc.name
    elif type(exc) is ImportError:
        module, name = exc.name, exc.name_from
    else:
        return None
    if type(module) is not str or type(name) is not str:
        return None
    module = "os" if module == "posix" else module
    for known, names, what in unsupported.ATTRIBUTES:
        if known == module and name in names.split():
            return what or f"python:{module}.{name}"
    return None


_endings = [(kind, re.compile(pattern), part, what) for kind, pattern, part, what in unsupported.ENDINGS]


def _file_of(exc):
    """Returns the path of the file that raised an exception."""
    path, tb = "", exc.__traceback__
    while tb is not None:
        path, tb = tb.tb_frame.f_code.co_filename, tb.tb_next
    return path


def error(what):
    """Returns the error for a feature of the table."""
    kind, number, text = unsupported.ERRORS[what]
    return kind(text) if number is None else kind(number, text)


def _refusing(what):
    def refuse(*args, **kwargs):
        raise unsupported_error(what, error(what))

    return refuse


def _no_functions():
    """Adds the functions of the table to the modules that have them on other systems."""
    for module, names, what in unsupported.FUNCTIONS:
        module = importlib.import_module(module)
        for name in names.split():
            # Functions that the library implements in Python, such as `os.popen`, call functions that are missing.
            patches.install(module, name, _refusing(what))


class _EndedThread:
    """The system's part of a thread that has ended."""

    ident = 0

    def is_done(self):
        return True

    def join(self, timeout=None):
        pass

    def _set_done(self):
        pass


def _mark_ended(thread, handle):
    """Changes a thread to one that was started and has ended."""
    import threading

    for name, value in vars(thread).items():
        if value is handle:
            setattr(thread, name, _EndedThread())
    threading._limbo.pop(thread, None)
    thread._started.set()


def _no_threads():
    import _thread
    import threading

    def _threadless():
        def start(*args, **kwargs):
            thread = getattr(args[0], "__self__", None) if args else None
            if type(thread).__module__ in unsupported.WATCHERS and isinstance(thread, threading.Thread):
                _mark_ended(thread, kwargs.get("handle"))
                return
            raise unsupported_error("threads", RuntimeError("can't start new thread"))

        return start

    for module, names in (
        (_thread, ("start_new_thread", "start_new", "start_joinable_thread")),
        (threading, ("_start_new_thread", "_start_joinable_thread")),
    ):
        for name in names:
            if hasattr(module, name):
                patches.install(module, name, _threadless())


def _no_waiting():
    """Makes waits for another thread time out or fail; a real wait would trap this interpreter."""
    import _queue
    import _thread

    acquire, locked, sleep = _thread.lock.acquire, _thread.lock.locked, time.sleep
    get, empty = _queue.SimpleQueue.get, _queue.SimpleQueue.empty

    def deadlock():
        text = "deadlock: waits for another thread, but threads are not available"
        return unsupported_error("threads", RuntimeError(text))

    # Calls that do not wait, including those with wrong arguments, are passed to the originals.
    def lock_acquire(self, blocking=True, timeout=-1):
        if not locked(self) or not blocking or timeout <= 0 and timeout != -1 or timeout > _thread.TIMEOUT_MAX:
            return acquire(self, blocking, timeout)
        if timeout == -1:
            raise deadlock()
        sleep(timeout)
        return False

    def lock_enter(self):
        if locked(self):
            raise deadlock()
        return acquire(self)

    def queue_get(self, block=True, timeout=None):
        if not block or not empty(self) or timeout is not None and timeout <= 0:
            return get(self, block, timeout)
        if timeout is None:
            raise deadlock()
        sleep(timeout)
        return get(self, False)

    patches.replace_in_type(_thread.lock, acquire=lock_acquire, acquire_lock=_copy(lock_acquire), __enter__=lock_enter)
    patches.replace_in_type(_queue.SimpleQueue, get=queue_get)


def _copy(function):
    return types.FunctionType(
        function.__code__, globals(), function.__name__, function.__defaults__, function.__closure__
    )


def _no_processes():
    import os
    import subprocess

    def popen(self, *args, **kwargs):
        self._child_created = False
        raise unsupported_error("processes", error("processes"))

    patches.copy_metadata(popen, "subprocess", "__init__", subprocess.Popen.__init__)
    subprocess.Popen.__init__ = popen
    # multiprocessing needs the name for its import; programs cannot get as far as using it.
    if not hasattr(os, "WNOHANG"):
        os.WNOHANG = 1


def _no_sockets():
    import _socket
    import socket

    def refuse(*args, **kwargs):
        raise unsupported_error("sockets", OSError(errno.EACCES, "network access is not granted to this sandbox"))

    def refusing():
        return lambda *args, **kwargs: refuse()

    def client_of(host):
        """Returns the missing feature of a client: a host of its own, or one that the program is itself."""
        if isinstance(host, (bytes, bytearray)):
            host = host.decode("ascii", "replace")
        is_own = not isinstance(host, str) or host in ("", "localhost", "::1", "0.0.0.0") or host.startswith("127.")
        return "sockets" if is_own else "host:" + host

    def connect(address=("",), *args, **kwargs):
        host = address[0] if isinstance(address, tuple) and address else ""
        error = OSError(errno.EACCES, "network access is not granted to this sandbox")
        raise unsupported_error(client_of(host), error)

    class Socket(_socket.socket):
        def __init__(self, *args, **kwargs):
            refuse()

    _socket.socket = Socket
    base = socket.socket

    class PlainSocket(base):
        __slots__ = ()

        def __init__(self, *args, **kwargs):
            refuse()

    PlainSocket.__name__ = PlainSocket.__qualname__ = "socket"
    PlainSocket.__module__ = "socket"
    socket.socket = socket.SocketType = PlainSocket

    def looking_up():
        def lookup(host="", *args, **kwargs):
            exc = socket.gaierror(getattr(socket, "EAI_FAIL", -4), "network access is not granted")
            raise unsupported_error(client_of(host), exc)

        return lookup

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        patches.install(socket, name, looking_up())
    patches.install(socket, "create_connection", connect)
    for name in ("create_server", "socketpair", "fromfd"):
        if hasattr(socket, name):
            patches.install(socket, name, refusing())


def install():
    _no_threads()
    _no_waiting()
    _no_functions()
    _no_processes()
    _no_sockets()
