"""Requests to the host, over the socket of the agent."""
import socket
import threading

# The agent passes eight requests on at a time; two places are for the interpreter itself.
_places = threading.BoundedSemaphore(6)


# Longest request that the agent passes on.
_LONGEST = 4 << 20


def call(request):
    """Sends a request and returns the answer's bytes."""
    if request[:1] == b"\4":
        with _places:
            return _exchange(request)
    if request[:1] == b"\3" and len(request) > _LONGEST:
        # The host counts a result that is left out.
        request = b'\3{"role":"display","data":{},"json":{},"metadata":"{}","incomplete":true}'
    return _exchange(request)


def _exchange(request):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0codebox-query")
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    if not parts:
        raise OSError("the host has not answered")
    return b"".join(parts)
