"""Duplicates of descriptors, pipes and the mode mask, for which the interpreter's system interface has no functions.

The host makes the duplicates and pipes, so that they are ordinary descriptors, for code in C too.
"""
import errno
import operator
import os
import struct

import _host
from _codebox import patches

_MARK = 2
_DUPLICATE, _DUPLICATE_TO, _PIPE = 1, 2, 3

_head = struct.Struct("<BBii").pack
_numbers = struct.Struct("<iii").unpack
_call = _host.call

# The flags of `os.pipe2`, with the numbers of Linux where the interpreter has none.
_CLOEXEC = getattr(os, "O_CLOEXEC", 0o2000000)
_NONBLOCK = os.O_NONBLOCK

# Only this program creates files here, and they have no modes, so the mask is only stored.
_mask = 0o022


def _ask(operation, one=0, other=0):
    number, one, other = _numbers(_call(_head(_MARK, operation, one, other)))
    if number:
        raise OSError(number, os.strerror(number))
    return one, other


def _descriptor(fd):
    fd = operator.index(fd)
    if not -(1 << 31) <= fd < 1 << 31:
        raise OverflowError("Python int too large to convert to C int")
    return fd


def dup(fd, /):
    """Return a duplicate of a file descriptor."""
    return _ask(_DUPLICATE, _descriptor(fd))[0]


def dup2(fd, fd2, inheritable=True):
    """Duplicate file descriptor."""
    return _ask(_DUPLICATE_TO, _descriptor(fd), _descriptor(fd2))[0]


def pipe():
    """Create a pipe.

    Returns a tuple of two file descriptors:
      (read_fd, write_fd)"""
    return _ask(_PIPE)


def pipe2(flags, /):
    """Create a pipe with flags set atomically.

    Returns a tuple of two file descriptors:
      (read_fd, write_fd)

    flags can be constructed by ORing together one or more of these values:
    O_NONBLOCK, O_CLOEXEC."""
    if flags & ~(_NONBLOCK | _CLOEXEC):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    ends = pipe()
    if flags & _NONBLOCK:
        for fd in ends:
            os.set_blocking(fd, False)
    return ends


def umask(mask, /):
    """Set the current numeric umask and return the previous umask."""
    global _mask
    before, _mask = _mask, operator.index(mask) & 0o777
    return before


def get_terminal_size(fd=1, /):
    """Return the size of the terminal window as (columns, lines)."""
    _descriptor(fd)
    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


def install():
    for function in (dup, dup2, get_terminal_size, pipe, pipe2, umask):
        patches.install(os, function.__name__, function)
    if not hasattr(os, "O_CLOEXEC"):
        os.O_CLOEXEC = _CLOEXEC
        os.__all__ = [*os.__all__, "O_CLOEXEC"]
