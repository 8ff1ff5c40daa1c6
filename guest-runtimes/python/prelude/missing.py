"""Powers that this interpreter lacks: the error a program expects, and a line to the host that says why.

Each hook reports before it raises, so that the host knows from the runtime itself, and not from the program's output,
what the program wanted.
"""
import errno
import gc
import sys
import time

from _codebox import door


# Errors of ours that a library met where it can cope, newest last.
_probed = []

# The standard library's own attempts: it does without what fails here.
_ATTEMPTS = ("find_library", "getfqdn", "getnode")


def refused(what, exc):
    """Reports a power that the program asked for, and returns the error to raise.

    A library that tries for a power while it is imported, or in one of `_ATTEMPTS`, usually does without; that is told
    only when the error ends the program.
    """
    if _probing():
        _probed.append((exc, what))
        del _probed[:-8]
    else:
        door.tell("missing", what=what)
    return exc


def _probing():
    """Whether import machinery or an attempt of the library's own is nearer than the program's code."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith(("/usr/local/lib/", "<codebox>", "<frozen ")):
            return False
        if frame.f_code.co_name in _ATTEMPTS:
            return True
        frame = frame.f_back
    return False


# Standard modules that exist elsewhere and tell what a program that imports them is after.
_STANDS_FOR = {
    "_multiprocessing": "processes",
    "_posixshmem": "processes",
    "_posixsubprocess": "processes",
}


def forget():
    """Lets go of errors, whose tracebacks keep the program's objects."""
    _probed.clear()


def ended(exc):
    """Tells what the program lacked when `exc` ended it."""
    if isinstance(exc, ModuleNotFoundError) and exc.name:
        top = exc.name.partition(".")[0]
        door.tell("missing", what=_STANDS_FOR.get(top, "module:" + top.removeprefix("_")))
    for known, what in _probed:
        if known is exc:
            door.tell("missing", what=what)


def _no_threads():
    import _thread
    import threading

    def start(*args, **kwargs):
        raise refused("threads", RuntimeError("can't start new thread"))

    for module, names in (
        (_thread, ("start_new_thread", "start_new", "start_joinable_thread")),
        (threading, ("_start_new_thread", "_start_joinable_thread")),
    ):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, start)


def _no_waiting():
    """Makes waits for another thread run out, or fail; this interpreter cannot wait, it would be trapped."""
    import _queue
    import _thread

    acquire, locked, sleep = _thread.lock.acquire, _thread.lock.locked, time.sleep
    get, empty = _queue.SimpleQueue.get, _queue.SimpleQueue.empty

    def deadlock():
        return refused("threads", RuntimeError("deadlock: this waits for another thread, and there are none here"))

    # Whatever does not wait, wrong arguments among it, is left to the originals.
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

    _replace(_thread.lock, acquire=lock_acquire, acquire_lock=lock_acquire, __enter__=lock_enter)
    _replace(_queue.SimpleQueue, get=queue_get)


def _replace(kind, **methods):
    """Changes methods of a built-in type, objects of which are made and held everywhere; there is no other way in."""
    (space,) = gc.get_referents(kind.__dict__)
    space.update(methods)
    sys._clear_internal_caches()


def _no_processes():
    import os
    import subprocess

    def refuse(*args, **kwargs):
        raise refused("processes", OSError(errno.ENOTSUP, "processes are not available in this sandbox"))

    def popen(self, *args, **kwargs):
        self._child_created = False
        refuse()

    subprocess.Popen.__init__ = popen
    # multiprocessing's import wants the name; nobody gets as far as using it.
    if not hasattr(os, "WNOHANG"):
        os.WNOHANG = 1
    for name in ("fork", "forkpty", "popen", "system", "posix_spawn", "posix_spawnp", "execv", "execve"):
        setattr(os, name, refuse)

    def pipe():
        raise OSError(errno.ENOTSUP, "pipes are not available in this sandbox")

    os.pipe = pipe


def _no_sockets():
    import _socket
    import socket

    def refuse(*args, **kwargs):
        raise refused("sockets", OSError(errno.EACCES, "network access is not granted to this sandbox"))

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

    def lookup(*args, **kwargs):
        raise refused("sockets", socket.gaierror(getattr(socket, "EAI_FAIL", -4), "network access is not granted"))

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, lookup)
    for name in ("create_connection", "create_server", "socketpair", "fromfd"):
        if hasattr(socket, name):
            setattr(socket, name, refuse)


def install():
    _no_threads()
    _no_waiting()
    _no_processes()
    _no_sockets()
