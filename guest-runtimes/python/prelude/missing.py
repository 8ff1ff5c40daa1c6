"""Powers that this interpreter lacks: the error a program expects, and a line to the host that says why.

Each hook reports before it raises, so that the host knows from the runtime itself, and not from the program's output,
what the program wanted.
"""
import errno
import sys

from _codebox import door


# Errors of ours that a library met while it was imported, newest last; most libraries try and cope.
_probed = []


def refused(what, exc):
    """Reports a power that the program asked for, and returns the error to raise.

    A library that tries for a power while it is imported usually does without; that is told only when the error ends
    the program.
    """
    if _importing():
        _probed.append((exc, what))
        del _probed[:-8]
    else:
        door.tell("missing", what=what)
    return exc


def _importing():
    """Whether the nearest import machinery is nearer than the program's own code."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith(("/usr/local/lib/", "<codebox>", "<frozen ")):
            return False
        frame = frame.f_back
    return False


# Standard modules that exist elsewhere and tell what a program that imports them is after.
_STANDS_FOR = {
    "_multiprocessing": "processes",
    "_posixshmem": "processes",
    "_posixsubprocess": "processes",
}


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
    for name in ("fork", "forkpty", "pipe", "popen", "system", "posix_spawn", "posix_spawnp", "execv", "execve"):
        setattr(os, name, refuse)


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
    _no_processes()
    _no_sockets()
