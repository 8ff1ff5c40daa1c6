"""Connections that the host makes, for a job with network grants: one request to the host per operation.

A request is fourteen bytes (a mark, the operation, a handle, two numbers) and the data to send; an answer is empty or
begins with a byte for its kind. JSON would cost more than the rest of a small request.
"""
import errno
import json
import struct

import _host

OPEN, TLS, SEND, RECV, CLOSE, SHUTDOWN, POLL, MACHINE, STEP = 1, 2, 3, 4, 5, 6, 7, 8, 9

# Kinds of answers: success, failure, or timeout.
_DONE, _FAILED, _LATE = 0, 1, 2

_MARK = 1
_NO_TIMEOUT = 0xFFFFFFFF
# Most bytes that one request carries; longer data is sent in several.
MAX_REQUEST_BYTES = 1 << 20

_head = struct.Struct("<BBIII").pack
_call = _host.call


class OperationTimeout(Exception):
    """Raised when the time ran out before the operation was done."""


def call(op, handle=0, number=0, timeout=None, data=b""):
    """Requests an operation from the host and returns its result as a view.

    `timeout` is in seconds; without one the call waits as long as the job may run.
    """
    wait = _NO_TIMEOUT if timeout is None else min(int(timeout * 1000 + 0.999), _NO_TIMEOUT - 1)
    answer = _call(_head(_MARK, op, handle, number, wait) + data)
    if not answer:
        return answer
    kind = answer[0]
    if kind == _DONE:
        return memoryview(answer)[1:]
    if kind == _LATE:
        raise OperationTimeout
    raise _error(json.loads(answer[1:]))


# Function that makes the exception for an error of TLS; `tls` sets it.
tls_error = None


def _error(failure):
    """Returns the exception for a failure that the host reports."""
    kind, text = failure["kind"], failure["text"]
    if kind == "name":
        import socket

        return socket.gaierror(getattr(socket, "EAI_NONAME", -2), text)
    if kind in ("certificate", "tls"):
        return tls_error(kind, text)
    number = getattr(errno, failure.get("errno") or "EIO", errno.EIO)
    return OSError(number, text)
