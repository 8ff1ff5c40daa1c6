"""`select` for connections that the host makes, besides the descriptors of files."""
import errno
import select
import selectors
import struct

from _codebox import net, sockets

_select = select.select
_POLLIN, _POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)

# Bit that marks the key of a wait for send space; the other bits are the handle.
_WRITABLE = 1 << 31


def ready(reads, writes, timeout):
    """Waits for the first of the connections to become ready, and returns the numbers of those that can be read or have
    ended, and of those that accept more data."""
    interests = {}
    for fds, flag in (reads, 0), (writes, _WRITABLE):
        for fd in fds:
            handle = sockets.handle_of(fd)
            if handle is None:
                raise OSError(errno.EBADF, "Bad file descriptor")
            interests[handle | flag] = fd
    try:
        answer = net.call(net.POLL, 0, 0, timeout, struct.pack(f"<{len(interests)}I", *interests))
    except net.OperationTimeout:
        return set(), set()
    found = [interest for (interest,) in struct.iter_unpack("<I", answer)]
    readable = {interests[interest] for interest in found if interest < _WRITABLE}
    writable = {interests[interest] for interest in found if interest >= _WRITABLE}
    return readable, writable


def _number(item):
    return item if isinstance(item, int) else item.fileno()


def wait(rlist, wlist, xlist, timeout=None):
    """As `select.select`, of connections too."""
    reads, writes = [(item, _number(item)) for item in rlist], [(item, _number(item)) for item in wlist]
    connections = [fd for _, fd in reads if sockets.is_ours(fd)]
    if not connections and not any(sockets.is_ours(fd) for _, fd in writes):
        return _select(rlist, wlist, xlist, timeout)
    sends = [fd for _, fd in writes if sockets.is_ours(fd)]
    others = [item for item, fd in reads if not sockets.is_ours(fd)], [item for item, fd in writes if not sockets.is_ours(fd)]
    # Files are always ready except for standard input, which is checked after the connections.
    found, writable = ready(connections, sends, 0 if others[1] else timeout)
    readable = [item for item, fd in reads if fd in found]
    written = [item for item, fd in writes if fd in writable]
    if any(others):
        more = _select(*others, [], 0)
        readable += more[0]
        written += more[1]
    return readable, written, []


class Poll:
    """As `select.poll`, for connections and files."""

    def __init__(self):
        self._events = {}

    def register(self, fd, eventmask=_POLLIN | _POLLOUT):
        self._events[_number(fd)] = eventmask

    def modify(self, fd, eventmask):
        if _number(fd) not in self._events:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        self._events[_number(fd)] = eventmask

    def unregister(self, fd):
        del self._events[_number(fd)]

    def poll(self, timeout=None):
        reads = [fd for fd, events in self._events.items() if events & _POLLIN]
        writes = [fd for fd, events in self._events.items() if events & _POLLOUT]
        waits = None if timeout is None or timeout < 0 else timeout / 1000
        readable, writable, _ = wait(reads, writes, [], waits)
        found = dict.fromkeys(readable, _POLLIN)
        for fd in writable:
            found[fd] = found.get(fd, 0) | _POLLOUT
        return list(found.items())


class Selector(selectors.SelectSelector):
    """A selector that knows connections; `selectors` holds `select.select` from before."""

    def _select(self, r, w, x, timeout=None):
        return wait(r, w, x, timeout)


Selector.__module__ = "selectors"

NAMES = {"select": wait, "poll": Poll}

# Selector that event loops use if a job has connections.
selector = None
