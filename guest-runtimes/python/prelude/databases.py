"""Databases of SQLite in directories that cannot be written.

There are no locks of files here, so SQLite makes a directory beside a database as its lock, also in order to read it.
"""
import errno
import os

from _codebox import hooks, patches

_NOT_WRITABLE = (errno.EPERM, errno.EACCES, errno.EROFS)

# Place in the header of a database that is 2 for one with a write-ahead log, which needs locks.
_FORMAT = 18


def _without_locks(database, is_uri):
    """Returns the address under which an existing database that cannot be written is read without a lock; None for any other."""
    if not isinstance(database, (str, bytes, os.PathLike)):
        return None
    path = os.fsdecode(database)
    query = "mode=ro"
    if is_uri and path.startswith("file:"):
        from urllib.parse import unquote

        path, _, query = path.partition("?")
        path = unquote(path.removeprefix("file:").removeprefix("//"))
    if "nolock=" in query or "immutable=" in query or "vfs=" in query:
        return None
    try:
        os.close(os.open(path, os.O_RDWR))
        return None
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            return None
    try:
        with open(path, "rb", buffering=0) as file:
            header = file.read(_FORMAT + 1)
        # Changes in the log cannot be read without locks.
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal") > 0:
            return None
    except OSError:
        return None
    from urllib.parse import quote

    way = "immutable=1" if header[_FORMAT:] == b"\2" else "nolock=1"
    return f"file:{quote(os.path.abspath(path))}?{query}&{way}"


def _patch(sqlite3):
    original = sqlite3.connect

    def connect(database, *args, **options):
        address = None if args else _without_locks(database, options.get("uri", False))
        if address is not None:
            database, options["uri"] = address, True
        return original(database, *args, **options)

    patches.install(sqlite3, "connect", connect)
    patches.install(sqlite3.dbapi2, "connect", connect)


def install():
    hooks.after_import("sqlite3", _patch)
