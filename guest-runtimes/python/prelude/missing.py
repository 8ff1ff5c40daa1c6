"""Powers that this interpreter lacks: the error a program expects, and a line to the host that says why.

Each hook reports before it raises, so that the host knows from the runtime itself, and not from the program's output,
what the program wanted.
"""
import builtins
import errno
import importlib.machinery
import sys

from _codebox import door


def report(what):
    door.tell("missing", what=what)


def _no_threads():
    import _thread
    import threading

    def start(*args, **kwargs):
        report("threads")
        raise RuntimeError("can't start new thread")

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
        report("processes")
        raise OSError(errno.ENOTSUP, "processes are not available in this sandbox")

    def popen(self, *args, **kwargs):
        self._child_created = False
        refuse()

    subprocess.Popen.__init__ = popen
    for name in ("fork", "system", "posix_spawn", "posix_spawnp", "execv", "execve"):
        setattr(os, name, refuse)


def _no_sockets():
    import _socket
    import socket

    def refuse(*args, **kwargs):
        report("sockets")
        raise OSError(errno.EACCES, "network access is not granted to this sandbox")

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
        report("sockets")
        raise socket.gaierror(socket.EAI_FAIL if hasattr(socket, "EAI_FAIL") else -4, "network access is not granted")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, lookup)
    for name in ("create_connection", "create_server", "socketpair", "fromfd"):
        if hasattr(socket, name):
            setattr(socket, name, refuse)


# Standard modules that exist elsewhere and tell what a program that imports them is after.
_STANDS_FOR = {
    "_multiprocessing": "processes",
    "_posixshmem": "processes",
    "_posixsubprocess": "processes",
    "_ssl": "module:ssl",
    "_ctypes": "module:ctypes",
}


class _Absent:
    """The last finder: it finds nothing, and tells the host the names that nobody found."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        if path is None and not _optional(name):
            report(_STANDS_FOR.get(name, "module:" + top))
        return None


# Accelerators and other systems' modules that the standard library tries to import and does without.
_OPTIONAL = frozenset(
    "_winapi nt msvcrt winreg _scproxy _posixshmem pwd grp fcntl termios resource readline _curses _tkinter "
    "org java _overlapped _hashlib _crypt _bootsubprocess _uuid _zstd _dbm _gdbm _remote_debugging _pyrepl "
    "_wmi syslog usercustomize sitecustomize apport_python_hook cython psutil simplejson ujson orjson "
    "numexpr bottleneck numba pyarrow fastparquet tables xarray IPython certifi brotli brotlicffi "
    "sklearnex daal4py cffi gmpy2 dateparser hypothesis pytest lz4 cupy torch_xla mkl jax".split()
)


def _optional(name):
    """Whether a module that is not there is one that libraries try for and do without."""
    return name in _OPTIONAL and sys._getframemodulename(3) != "__main__"


def install():
    _no_threads()
    _no_processes()
    _no_sockets()


def watch_imports():
    """Comes last, once the image's own imports are done."""
    sys.meta_path.append(_Absent)
