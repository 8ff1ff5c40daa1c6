"""`socket` for a job with network grants: streams over connections of the host, which resolves the names itself.

There are clients only. Servers, and sockets other than TCP streams, are refused like every socket without a grant.
"""
import errno
import os
import socket
import time

from _codebox import missing, net

# Far above the descriptors of files, which the library may use together with these.
_FIRST = 1 << 24

# The host's handle, peer and host name of each open socket, by the number that stands for its descriptor.
_handles = {}
_next = _FIRST

_SERVICES = {"http": 80, "https": 443, "ftp": 21, "smtp": 25, "pop3": 110, "imap": 143, "ssh": 22, "domain": 53}

_original = socket.socket
_UNSET = object()
_default_timeout = None


def _code(number):
    return OSError(number, os.strerror(number))


class Socket:
    """A TCP client."""

    __slots__ = (
        "__weakref__", "_io_refs", "_closed", "_family", "_type", "_proto", "_fd", "_handle", "_timeout", "_peer", "_host"
    )

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        global _next
        self._closed = False
        self._io_refs = 0
        self._handle = self._peer = self._host = None
        self._fd = -1
        self._timeout = _default_timeout
        self._family = socket.AF_INET if family == -1 else family
        self._type = socket.SOCK_STREAM if type == -1 else type
        self._proto = 0 if proto == -1 else proto
        if fileno is not None:
            if not _FIRST <= fileno < _next:
                raise _code(errno.EBADF)
            self._fd = fileno
            self._handle, self._peer, self._host = _handles.get(fileno, (None, None, None))
            return
        if self._family not in (socket.AF_INET, socket.AF_INET6) or int(self._type) & 15 != socket.SOCK_STREAM:
            error = OSError(errno.EACCES, "only TCP connections can be granted to this sandbox")
            raise missing.unsupported_error("sockets", error)
        self._fd = _next
        _next += 1

    family = property(lambda self: _enum("AddressFamily", self._family))
    type = property(lambda self: _enum("SocketKind", self._type))
    proto = property(lambda self: self._proto)
    timeout = property(lambda self: self._timeout)

    __enter__ = _original.__enter__
    __exit__ = _original.__exit__
    makefile = _original.makefile
    close = _original.close
    _decref_socketios = _original._decref_socketios
    __getstate__ = _original.__getstate__

    def __repr__(self):
        state = " [closed]" if self._closed else ""
        text = f"<{type(self).__module__}.{type(self).__qualname__}{state} fd={self._fd}, family={self._family}, "
        text += f"type={self._type}, proto={self._proto}"
        return text + (f", raddr={self._peer}>" if self._peer else ">")

    def __del__(self):
        if self._handle is not None:
            self._let_go()

    def _let_go(self):
        handle, self._handle = self._handle, None
        _handles.pop(self._fd, None)
        self._fd = -1
        if handle is not None:
            net.call(net.CLOSE, handle)

    def _real_close(self, _ss=None):
        self._let_go()

    def detach(self):
        self._closed = True
        fd, self._fd, self._handle = self._fd, -1, None
        return fd

    def fileno(self):
        return self._fd

    def connect(self, address):
        if self._fd == -1:
            raise _code(errno.EBADF)
        if self._handle is not None:
            raise _code(errno.EISCONN)
        host, port = _address(address)
        try:
            # A non-blocking connect would need another call that reports its end, so it blocks; the host limits its
            # time.
            answer = net.call(net.OPEN, 0, port, self._timeout or None, _name(host))
        except net.OperationTimeout:
            raise TimeoutError("timed out") from None
        self._handle = int.from_bytes(answer[:4], "little")
        where = bytes(answer[4:]).decode()
        self._peer = (where, port, 0, 0) if ":" in where else (where, port)
        self._host = host
        _handles[self._fd] = (self._handle, self._peer, host)

    def connect_ex(self, address):
        try:
            self.connect(address)
        except OSError as error:
            if error.errno is None:
                raise
            return error.errno
        return 0

    def _opened(self):
        if self._handle is None:
            raise _code(errno.EBADF if self._fd == -1 else errno.ENOTCONN)
        return self._handle

    def recv(self, bufsize, flags=0):
        return bytes(self._recv(bufsize, flags))

    def recv_into(self, buffer, nbytes=0, flags=0):
        view = memoryview(buffer).cast("B")
        data = self._recv(min(nbytes or len(view), len(view)), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize, flags=0):
        return self.recv(bufsize, flags), self._peer

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        return self.recv_into(buffer, nbytes, flags), self._peer

    def _recv(self, most, flags=0):
        if most < 0:
            raise ValueError("negative buffersize in recv")
        peek = flags & getattr(socket, "MSG_PEEK", 2)
        handle = self._opened()
        wait = 0 if flags & getattr(socket, "MSG_DONTWAIT", 0x40) else self._timeout
        try:
            return net.call(net.RECV, handle, min(most, net.MAX_REQUEST_BYTES) | (0x80000000 if peek else 0), wait)
        except net.OperationTimeout:
            raise _waited(wait) from None

    def send(self, data, flags=0):
        wait = 0 if flags & getattr(socket, "MSG_DONTWAIT", 0x40) else self._timeout
        return self._send(bytes(memoryview(data).cast("B")[: net.MAX_REQUEST_BYTES]), wait)

    def _send(self, data, wait):
        try:
            sent = net.call(net.SEND, self._opened(), 0, wait, data)
        except net.OperationTimeout:
            raise _waited(wait) from None
        # An empty answer means that all data was sent.
        return int.from_bytes(sent, "little") if sent else len(data)

    def sendall(self, data, flags=0):
        if type(data) is not bytes:
            data = bytes(memoryview(data).cast("B"))
        wait = self._timeout
        end = time.monotonic() + wait if wait else None
        sent = self._send(data[: net.MAX_REQUEST_BYTES], wait)
        while sent < len(data):
            if end is not None:
                wait = end - time.monotonic()
                if wait <= 0:
                    raise TimeoutError("timed out")
            sent += self._send(data[sent : sent + net.MAX_REQUEST_BYTES], wait)

    def sendmsg(self, buffers, ancdata=(), flags=0, address=None):
        data = bytearray()
        for buffer in buffers:
            data += memoryview(buffer).cast("B")[: net.MAX_REQUEST_BYTES - len(data)]
            if len(data) == net.MAX_REQUEST_BYTES:
                break
        return self.send(data, flags)

    def sendfile(self, file, offset=0, count=None):
        if offset:
            file.seek(offset)
        sent = 0
        while count is None or sent < count:
            data = file.read(65536 if count is None else min(65536, count - sent))
            if not data:
                break
            self.sendall(data)
            sent += len(data)
        return sent

    def shutdown(self, how):
        handle = self._opened()
        if how not in (0, 1, 2):
            raise _code(errno.EINVAL)
        # Shutting down the reading side sends nothing to the peer.
        if how:
            net.call(net.SHUTDOWN, handle)

    def settimeout(self, value):
        if value is not None:
            value = float(value)
            if value < 0:
                raise ValueError("Timeout value out of range")
        self._timeout = value

    def gettimeout(self):
        return self._timeout

    def setblocking(self, flag):
        self._timeout = None if flag else 0.0

    def getblocking(self):
        return self._timeout != 0.0

    def getpeername(self):
        self._opened()
        return self._peer

    def getsockname(self):
        return ("::", 0, 0, 0) if self._family == socket.AF_INET6 else ("0.0.0.0", 0)

    def setsockopt(self, level, optname, *value):
        """Accepts and ignores socket options, because the host owns the connection."""

    def getsockopt(self, level, optname, buflen=None):
        value = int(self._type) if (level, optname) == (socket.SOL_SOCKET, socket.SO_TYPE) else 0
        return value if buflen is None else value.to_bytes(4, "little")[:buflen]

    def set_inheritable(self, inheritable):
        pass

    def get_inheritable(self):
        return False

    def bind(self, address):
        # The host chooses a client's own address; a server's would need a grant by name.
        if address and address[1] not in (0, None):
            self._serve()

    def _serve(self, *_):
        raise missing.unsupported_error("sockets", OSError(errno.EACCES, "servers are not available in this sandbox"))

    listen = accept = _accept = _serve

    def sendto(self, *_):
        error = OSError(errno.EACCES, "only TCP connections can be granted to this sandbox")
        raise missing.unsupported_error("sockets", error)

    def dup(self):
        raise OSError(errno.ENOTSUP, "sockets cannot be duplicated in this sandbox")


Socket.__name__ = Socket.__qualname__ = "socket"
Socket.__module__ = "socket"


def _enum(name, value):
    try:
        return getattr(socket, name)(value)
    except ValueError:
        return value


def _waited(wait):
    return BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) if wait == 0 else TimeoutError("timed out")


def _name(host):
    if host.isascii():
        return host.encode() or b"localhost"
    try:
        return host.encode("idna")
    except UnicodeError:
        raise socket.gaierror(_eai("EAI_NONAME", -2), "Name or service not known") from None


def _address(address):
    if not isinstance(address, tuple) or len(address) < 2:
        raise TypeError(f"a TCP address is a tuple of host and port, not {type(address).__name__}")
    host, port = address[0], address[1]
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii")
    if not isinstance(host, str):
        raise TypeError(f"str, bytes or bytearray expected, not {type(host).__name__}")
    if not 0 <= port <= 65535:
        raise OverflowError("port must be 0-65535.")
    return host, port


def create_connection(address, timeout=_UNSET, source_address=None, *, all_errors=False):
    """Connects as `socket.create_connection` does; the host tries each address."""
    sock = socket.socket()
    if timeout is not _UNSET and timeout is not socket._GLOBAL_DEFAULT_TIMEOUT:
        sock.settimeout(timeout)
    try:
        sock.connect((address[0], _port(address[1])))
    except BaseException:
        sock.close()
        raise
    return sock


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    """Returns the name as the only address; the host resolves and checks it on connect."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii")
    host = host or "localhost"
    if type not in (0, socket.SOCK_STREAM):
        error = socket.gaierror(_eai("EAI_SOCKTYPE", -7), "ai_socktype not supported")
        raise missing.unsupported_error("sockets", error)
    six = ":" in host
    if not six and flags & getattr(socket, "AI_NUMERICHOST", 4) and not host.replace(".", "").isdigit():
        raise socket.gaierror(_eai("EAI_NONAME", -2), "Name or service not known")
    if family not in (0, socket.AF_INET6 if six else socket.AF_INET):
        if six or family != socket.AF_INET6:
            raise socket.gaierror(_eai("EAI_ADDRFAMILY", -9), "Address family for hostname not supported")
        six = True
    address = (host, _port(port), 0, 0) if six else (host, _port(port))
    kind = _enum("AddressFamily", socket.AF_INET6 if six else socket.AF_INET)
    return [(kind, _enum("SocketKind", socket.SOCK_STREAM), 6, "", address)]


def _eai(name, number):
    return getattr(socket, name, number)


def _port(port):
    if port is None:
        return 0
    if isinstance(port, (bytes, bytearray)):
        port = bytes(port).decode("ascii")
    if isinstance(port, str):
        if port.isdigit():
            return int(port)
        if port not in _SERVICES:
            raise socket.gaierror(_eai("EAI_SERVICE", -8), "Servname not supported for ai_socktype")
        return _SERVICES[port]
    return port


def gethostbyname(name):
    if name in ("", "localhost"):
        return "127.0.0.1"
    if name.replace(".", "").isdigit():
        return name
    raise socket.gaierror(_eai("EAI_FAIL", -4), "names are resolved by the host when it connects")


def gethostbyname_ex(name):
    return name, [], [gethostbyname(name)]


def _only_the_host(*_, **__):
    message = "only the host resolves names, when it connects; this requires a container"
    raise missing.unsupported_error("sockets", socket.gaierror(_eai("EAI_FAIL", -4), message))


def _only_clients(*_, **__):
    message = "only connections to granted hosts are available in this sandbox; this requires a container"
    raise missing.unsupported_error("sockets", OSError(errno.EACCES, message))


def setdefaulttimeout(timeout):
    global _default_timeout
    if timeout is not None and timeout < 0:
        raise ValueError("Timeout value out of range")
    _default_timeout = None if timeout is None else float(timeout)


def getdefaulttimeout():
    return _default_timeout


def handle_of(fd):
    """Returns the host's handle for a number that stands for a descriptor, or None."""
    known = _handles.get(fd)
    return None if known is None else known[0]


def is_ours(fd):
    return fd >= _FIRST


# Replacements for the library's own names while a job has network grants.
NAMES = {
    "socket": Socket,
    "SocketType": Socket,
    "create_connection": create_connection,
    "getaddrinfo": getaddrinfo,
    "gethostbyname": gethostbyname,
    "gethostbyname_ex": gethostbyname_ex,
    "setdefaulttimeout": setdefaulttimeout,
    "getdefaulttimeout": getdefaulttimeout,
}

# Functions that no connection provides, with errors of their own, since the network itself is granted.
NAMES.update(dict.fromkeys(("gethostbyaddr", "getnameinfo"), _only_the_host))
NAMES.update({name: _only_clients for name in ("create_server", "socketpair", "fromfd") if hasattr(socket, name)})

# Linux's values, which programs use; those of the interpreter's system differ.
NAMES.update({"SHUT_RD": 0, "SHUT_WR": 1, "SHUT_RDWR": 2})

# Names that programs use to tune connections and that the interpreter's system lacks, with Linux's numbers.
_OPTIONS = {"SO_ERROR": 4, "SO_KEEPALIVE": 9, "SO_RCVBUF": 8, "SO_REUSEADDR": 2, "SO_SNDBUF": 7, "MSG_DONTWAIT": 64}
NAMES.update({name: number for name, number in _OPTIONS.items() if not hasattr(socket, name)})
