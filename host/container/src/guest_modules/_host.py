"""Requests to the host, over the socket of the agent."""
import socket


def call(request):
    """Sends a request and returns the answer's bytes."""
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
