"""The module `_ssl`, which the interpreter was built without, as far as clients need it: the host implements TLS.

The library's own `ssl` is based on it. The host verifies every certificate against its own roots, regardless of the
context: code of the guest cannot disable that, and certificates that a context loads are checked for their form and not
trusted.
"""
import errno
import json
import os
import sys
import types

from _codebox import net, sockets

_CONSTANTS = {
    "CERT_NONE": 0, "CERT_OPTIONAL": 1, "CERT_REQUIRED": 2,
    "PROTOCOL_TLS": 2, "PROTOCOL_SSLv23": 2, "PROTOCOL_TLSv1": 3, "PROTOCOL_TLSv1_1": 4, "PROTOCOL_TLSv1_2": 5,
    "PROTOCOL_TLS_CLIENT": 16, "PROTOCOL_TLS_SERVER": 17,
    "PROTO_MINIMUM_SUPPORTED": -2, "PROTO_MAXIMUM_SUPPORTED": -1, "PROTO_SSLv3": 768, "PROTO_TLSv1": 769,
    "PROTO_TLSv1_1": 770, "PROTO_TLSv1_2": 771, "PROTO_TLSv1_3": 772,
    "OP_ALL": 0x80000050, "OP_NO_SSLv2": 0, "OP_NO_SSLv3": 1 << 25, "OP_NO_TLSv1": 1 << 26, "OP_NO_TLSv1_1": 1 << 28,
    "OP_NO_TLSv1_2": 1 << 27, "OP_NO_TLSv1_3": 1 << 29, "OP_CIPHER_SERVER_PREFERENCE": 1 << 22, "OP_SINGLE_DH_USE": 0,
    "OP_NO_TICKET": 1 << 14, "OP_SINGLE_ECDH_USE": 0, "OP_NO_COMPRESSION": 1 << 17, "OP_ENABLE_MIDDLEBOX_COMPAT": 1 << 20,
    "OP_NO_RENEGOTIATION": 1 << 30, "OP_IGNORE_UNEXPECTED_EOF": 1 << 7, "OP_ENABLE_KTLS": 1 << 3,
    "OP_LEGACY_SERVER_CONNECT": 1 << 2,
    "VERIFY_DEFAULT": 0, "VERIFY_CRL_CHECK_LEAF": 4, "VERIFY_CRL_CHECK_CHAIN": 12, "VERIFY_X509_STRICT": 32,
    "VERIFY_ALLOW_PROXY_CERTS": 64, "VERIFY_X509_TRUSTED_FIRST": 32768, "VERIFY_X509_PARTIAL_CHAIN": 0x80000,
    "SSL_ERROR_SSL": 1, "SSL_ERROR_WANT_READ": 2, "SSL_ERROR_WANT_WRITE": 3, "SSL_ERROR_WANT_X509_LOOKUP": 4,
    "SSL_ERROR_SYSCALL": 5, "SSL_ERROR_ZERO_RETURN": 6, "SSL_ERROR_WANT_CONNECT": 7, "SSL_ERROR_EOF": 8,
    "SSL_ERROR_INVALID_ERROR_CODE": 10,
    "ALERT_DESCRIPTION_CLOSE_NOTIFY": 0, "ALERT_DESCRIPTION_UNEXPECTED_MESSAGE": 10,
    "ALERT_DESCRIPTION_BAD_RECORD_MAC": 20, "ALERT_DESCRIPTION_HANDSHAKE_FAILURE": 40,
    "ALERT_DESCRIPTION_BAD_CERTIFICATE": 42, "ALERT_DESCRIPTION_UNSUPPORTED_CERTIFICATE": 43,
    "ALERT_DESCRIPTION_CERTIFICATE_REVOKED": 44, "ALERT_DESCRIPTION_CERTIFICATE_EXPIRED": 45,
    "ALERT_DESCRIPTION_CERTIFICATE_UNKNOWN": 46, "ALERT_DESCRIPTION_ILLEGAL_PARAMETER": 47,
    "ALERT_DESCRIPTION_UNKNOWN_CA": 48, "ALERT_DESCRIPTION_ACCESS_DENIED": 49, "ALERT_DESCRIPTION_DECODE_ERROR": 50,
    "ALERT_DESCRIPTION_DECRYPT_ERROR": 51, "ALERT_DESCRIPTION_PROTOCOL_VERSION": 70,
    "ALERT_DESCRIPTION_INSUFFICIENT_SECURITY": 71, "ALERT_DESCRIPTION_INTERNAL_ERROR": 80,
    "ALERT_DESCRIPTION_USER_CANCELLED": 90, "ALERT_DESCRIPTION_NO_RENEGOTIATION": 100,
    "ALERT_DESCRIPTION_UNSUPPORTED_EXTENSION": 110, "ALERT_DESCRIPTION_UNRECOGNIZED_NAME": 112,
    "ALERT_DESCRIPTION_UNKNOWN_PSK_IDENTITY": 115,
    "HOSTFLAG_ALWAYS_CHECK_SUBJECT": 1, "HOSTFLAG_NEVER_CHECK_SUBJECT": 32, "HOSTFLAG_NO_WILDCARDS": 2,
    "HOSTFLAG_NO_PARTIAL_WILDCARDS": 4, "HOSTFLAG_MULTI_LABEL_WILDCARDS": 8, "HOSTFLAG_SINGLE_LABEL_SUBDOMAINS": 16,
    "ENCODING_PEM": 1, "ENCODING_DER": 2,
    "HAS_SNI": True, "HAS_ECDH": True, "HAS_NPN": False, "HAS_ALPN": True, "HAS_SSLv2": False, "HAS_SSLv3": False,
    "HAS_TLSv1": False, "HAS_TLSv1_1": False, "HAS_TLSv1_2": True, "HAS_TLSv1_3": True, "HAS_PSK": False,
    "HAS_TLS_UNIQUE": False, "HAS_PHA": False, "HAS_PSK_TLS13": False,
    # Version of the interface, which libraries check.
    "OPENSSL_VERSION": "OpenSSL 3.0.0 (interface only; TLS is implemented by the host)",
    "OPENSSL_VERSION_INFO": (3, 0, 0, 0, 0), "OPENSSL_VERSION_NUMBER": 0x30000000,
    "_OPENSSL_API_VERSION": (3, 0, 0, 0, 0), "_DEFAULT_CIPHERS": "@SECLEVEL=2:ECDH+AESGCM",
}

# Most bytes that one step of TLS without a connection carries, and the bit of their number that marks the end.
_MAX_STEP_BYTES = 128 << 10
_END = 1 << 31

_OBJECTS = {
    129: ("serverAuth", "TLS Web Server Authentication", 129, "1.3.6.1.5.5.7.3.1"),
    130: ("clientAuth", "TLS Web Client Authentication", 130, "1.3.6.1.5.5.7.3.2"),
}


class SSLError(OSError):
    """An error of TLS."""

    library = reason = None

    def __str__(self):
        return self.strerror if isinstance(self.strerror, str) else str(self.args)


class SSLZeroReturnError(SSLError):
    """The peer closed the TLS session."""


class SSLWantReadError(SSLError):
    """More data must be received first."""


class SSLWantWriteError(SSLError):
    """More data must be sent first."""


class SSLSyscallError(SSLError):
    """A system call failed."""


class SSLEOFError(SSLError):
    """Unexpected end of the TLS stream."""


class SSLCertVerificationError(SSLError, ValueError):
    """Certificate verification failed."""

    verify_code = 1
    verify_message = ""


def _reasoned(kind, number, reason, text):
    made = kind(number, f"[SSL: {reason}] {text}")
    made.library, made.reason = "SSL", reason
    return made


def error(kind, text):
    """Returns the exception for a failure of TLS that the host reports."""
    if kind == "certificate":
        message = f"certificate verify failed: {text}"
        made = _reasoned(SSLCertVerificationError, 1, "CERTIFICATE_VERIFY_FAILED", message)
        made.verify_message = text
        return made
    return SSLError(1, f"[SSL] {text}")


net.tls_error = error


class _SSLContext:
    __slots__ = (
        "__dict__", "__weakref__", "protocol", "options", "verify_flags", "minimum_version", "maximum_version",
        "sni_callback", "post_handshake_auth", "_host_flags", "_msg_callback", "security_level", "num_tickets",
        "_check", "_mode", "_alpn", "_loaded",
    )

    def __new__(cls, protocol):
        self = super().__new__(cls)
        slot = _SSLContext.__dict__
        client = protocol == _CONSTANTS["PROTOCOL_TLS_CLIENT"]
        only = {_CONSTANTS["PROTOCOL" + name]: _CONSTANTS["PROTO" + name] for name in ("_TLSv1", "_TLSv1_1", "_TLSv1_2")}
        for name, value in (
            ("protocol", protocol), ("options", 0x825200D0), ("verify_flags", 0x8000),
            ("minimum_version", only.get(protocol, -2)), ("maximum_version", only.get(protocol, -1)),
            ("sni_callback", None), ("post_handshake_auth", False), ("_host_flags", 4),
            ("_msg_callback", None), ("security_level", 2), ("num_tickets", 2), ("_alpn", ()), ("_loaded", 0),
            ("_mode", 2 if client else 0), ("_check", client),
        ):
            slot[name].__set__(self, value)
        return self

    @property
    def check_hostname(self):
        return self._check

    @check_hostname.setter
    def check_hostname(self, value):
        self._check = bool(value)
        if self._check and self._mode == 0:
            self._mode = 2

    @property
    def verify_mode(self):
        return self._mode

    @verify_mode.setter
    def verify_mode(self, value):
        if value not in (0, 1, 2):
            raise ValueError("invalid value for verify_mode")
        if value == 0 and self._check:
            raise ValueError("Cannot set verify_mode to CERT_NONE when check_hostname is enabled.")
        self._mode = int(value)

    def load_verify_locations(self, cafile=None, capath=None, cadata=None):
        if cafile is None and capath is None and cadata is None:
            raise TypeError("cafile, capath and cadata cannot be all omitted")
        if cafile is not None:
            with open(cafile, "rb") as file:
                if b"-----BEGIN" not in file.read():
                    raise SSLError(136, "[X509: NO_CERTIFICATE_OR_CRL_FOUND] no certificate or crl found")
        if capath is not None and not os.path.exists(capath):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), capath)
        self._loaded += 1

    def set_default_verify_paths(self):
        self._loaded += 1

    def load_cert_chain(self, certfile, keyfile=None, password=None):
        raise SSLError(1, "[SSL] certificates of clients are not available in this sandbox")

    def load_dh_params(self, path):
        raise SSLError(1, "[SSL] servers are not available in this sandbox")

    def cert_store_stats(self):
        return {"x509": self._loaded, "crl": 0, "x509_ca": self._loaded}

    def get_ca_certs(self, binary_form=False):
        return []

    def set_ciphers(self, ciphers):
        """Ignored: the host selects the cipher suites."""

    def get_ciphers(self):
        return []

    def set_ecdh_curve(self, name):
        pass

    def session_stats(self):
        return dict.fromkeys(("number", "connect", "connect_good", "accept", "hits", "misses", "timeouts"), 0)

    def _set_alpn_protocols(self, protocols):
        names, at = [], 0
        while at < len(protocols):
            end = at + 1 + protocols[at]
            names.append(bytes(protocols[at + 1 : end]).decode("ascii"))
            at = end
        self._alpn = tuple(names)

    def _wrap_socket(self, sock, server_side, server_hostname=None, *, owner=None, session=None):
        if server_side:
            raise SSLError(1, "[SSL] servers are not available in this sandbox")
        return _Connection(sock, self, server_hostname)

    def _wrap_bio(self, incoming, outgoing, server_side, server_hostname=None, *, owner=None, session=None):
        if server_side:
            raise SSLError(1, "[SSL] servers are not available in this sandbox")
        if not server_hostname:
            if self._check:
                raise ValueError("check_hostname requires server_hostname")
            raise ValueError("the host verifies the TLS peer in this sandbox: pass server_hostname")
        return _Machine(incoming, outgoing, self, server_hostname)


class _Tls:
    """Base class of both kinds of TLS, with the results of the handshake."""

    session = None
    session_reused = server_side = False

    def __init__(self, context, name):
        self.context = context
        self.server_hostname = name
        self._facts = None

    def _wanted(self, name):
        self._name = name
        return json.dumps({"name": name, "alpn": self.context._alpn, "versions": self._versions()}).encode()

    def _versions(self):
        """Returns the versions of TLS that the context allows, of the two that the host implements."""
        context, two, three = self.context, _CONSTANTS["PROTO_TLSv1_2"], _CONSTANTS["PROTO_TLSv1_3"]
        ends = {_CONSTANTS["PROTO_MINIMUM_SUPPORTED"]: two, _CONSTANTS["PROTO_MAXIMUM_SUPPORTED"]: three}
        first, last = (ends.get(end, end) for end in (context.minimum_version, context.maximum_version))
        off = {two: _CONSTANTS["OP_NO_TLSv1_2"], three: _CONSTANTS["OP_NO_TLSv1_3"]}
        left = [each for each in (two, three) if first <= each <= last and not context.options & off[each]]
        if not left:
            raise _reasoned(SSLError, 1, "NO_PROTOCOLS_AVAILABLE", "no protocols available")
        return "all" if len(left) == 2 else "1.2" if left == [two] else "1.3"

    def getpeercert(self, binary_form=False):
        if self._facts is None:
            raise ValueError("handshake not done yet")
        if binary_form:
            return bytes.fromhex(self._facts["certificate"])
        # The name that the host has verified; the host reads no further fields of a certificate.
        return {"subjectAltName": (("DNS", self._name),)}

    def get_verified_chain(self):
        return None

    get_unverified_chain = get_verified_chain

    def cipher(self):
        return None if self._facts is None else (self._facts["cipher"], self._facts["version"], 256)

    def version(self):
        return None if self._facts is None else self._facts["version"]

    def selected_alpn_protocol(self):
        return None if self._facts is None else self._facts["alpn"]

    def shared_ciphers(self):
        return None

    compression = shared_ciphers

    def get_channel_binding(self, cb_type="tls-unique"):
        if cb_type != "tls-unique":
            raise ValueError(f"'{cb_type}' channel binding type not implemented")

    def verify_client_post_handshake(self):
        raise NotImplementedError("Post-handshake auth is not supported in this sandbox")


class _Connection(_Tls):
    """TLS on one socket."""

    def __init__(self, sock, context, name):
        import weakref

        super().__init__(context, name)
        self._sock = weakref.ref(sock)
        self._read, self._write = sock_functions()

    def _alive(self):
        sock = self._sock()
        if sock is None:
            raise ReferenceError("the socket no longer exists")
        return sock

    def do_handshake(self):
        if self._facts is not None:
            return
        sock = self._alive()
        wanted = self._wanted(self.server_hostname or sock._host)
        try:
            answer = net.call(net.TLS, sock._opened(), 0, sock._timeout or None, wanted)
        except net.OperationTimeout:
            raise TimeoutError("_ssl.c: The handshake operation timed out") from None
        self._facts = json.loads(bytes(answer))

    def read(self, length=1024, buffer=None):
        sock = self._alive()
        try:
            if buffer is None:
                return bytes(self._read(sock, length))
            view = memoryview(buffer).cast("B")
            data = self._read(sock, min(length, len(view)) if length else len(view))
        except BlockingIOError:
            raise SSLWantReadError(2, "The operation did not complete (read)") from None
        except TimeoutError:
            raise TimeoutError("The read operation timed out") from None
        view[: len(data)] = data
        return len(data)

    def write(self, data):
        try:
            return self._write(self._alive(), data)
        except BlockingIOError:
            raise SSLWantWriteError(3, "The operation did not complete (write)") from None
        except TimeoutError:
            raise TimeoutError("The write operation timed out") from None

    def pending(self):
        return 0

    def shutdown(self):
        sock = self._alive()
        net.call(net.SHUTDOWN, sock._opened())
        return sock


class _Machine(_Tls):
    """TLS whose bytes the program transfers itself: the host decrypts incoming and encrypts outgoing data."""

    _handle = None

    def __init__(self, incoming, outgoing, context, name):
        super().__init__(context, name)
        self._incoming, self._outgoing = incoming, outgoing
        self._decrypted = memoryview(b"")
        # Flags: the handshake was started, this side has closed, the other side has closed, and an error has made the
        # state unusable.
        self._started = self._closed = self._ended = self._broken = False
        self._handle = int.from_bytes(net.call(net.MACHINE, 0, 0, None, self._wanted(name)), "little")

    def __del__(self):
        if self._handle is not None:
            net.call(net.CLOSE, self._handle)

    def _step(self, plaintext=b"", ciphertext=b"", end=0):
        try:
            answer = net.call(net.STEP, self._handle, len(plaintext) | end, None, plaintext + ciphertext)
        except SSLError:
            self._broken = True
            raise
        plaintext_end = 9 + int.from_bytes(answer[1:5], "little")
        facts_end = plaintext_end + int.from_bytes(answer[5:9], "little")
        self._ended = bool(answer[0] & 1)
        if plaintext_end > 9:
            data = answer[9:plaintext_end]
            self._decrypted = memoryview(bytes(self._decrypted) + data) if self._decrypted else data
        if facts_end > plaintext_end:
            self._facts = json.loads(bytes(answer[plaintext_end:facts_end]))
        if len(answer) > facts_end:
            self._outgoing.write(answer[facts_end:])

    def _receive(self):
        """Decrypts the data that has arrived; raises an error if there is none."""
        if self._broken:
            raise SSLEOFError(8, "EOF occurred in violation of protocol")
        ciphertext = self._incoming.read(_MAX_STEP_BYTES)
        if ciphertext:
            self._step(ciphertext=ciphertext)
        elif not self._incoming.eof:
            raise SSLWantReadError(2, "The operation did not complete (read)")
        elif self._facts is not None and self.context.options & _CONSTANTS["OP_IGNORE_UNEXPECTED_EOF"]:
            self._ended = True
        else:
            raise _reasoned(SSLEOFError, 8, "UNEXPECTED_EOF_WHILE_READING", "EOF occurred in violation of protocol")

    def do_handshake(self):
        if not self._started:
            self._started = True
            self._step()
        while self._facts is None:
            if self._ended:
                raise SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)")
            self._receive()

    def read(self, length=1024, buffer=None):
        if buffer is not None:
            view = memoryview(buffer).cast("B")
            length = min(length, len(view)) if length > 0 else len(view)
        elif length < 0:
            raise ValueError("size should not be negative")
        self.do_handshake()
        while not self._decrypted and length and not self._ended:
            self._receive()
        if not self._decrypted and length and self._closed:
            raise SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)")
        data, self._decrypted = self._decrypted[:length], self._decrypted[length:]
        if buffer is None:
            return bytes(data)
        view[: len(data)] = data
        return len(data)

    def write(self, data):
        self.do_handshake()
        if self._closed:
            raise _reasoned(SSLError, 1, "PROTOCOL_IS_SHUTDOWN", "protocol is shutdown")
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _MAX_STEP_BYTES):
            self._step(plaintext=bytes(view[at : at + _MAX_STEP_BYTES]))
        return len(view)

    def pending(self):
        return len(self._decrypted)

    def shutdown(self):
        if self._facts is None:
            raise _reasoned(SSLError, 1, "SHUTDOWN_WHILE_IN_INIT", "shutdown while in init")
        if not self._closed:
            self._closed = True
            self._step(end=_END)
        while not self._ended:
            if self._decrypted:
                reason = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
                raise _reasoned(SSLError, 1, reason, "application data after close notify")
            self._receive()


def sock_functions():
    return sockets.Socket._recv, sockets.Socket.send


class MemoryBIO:
    """Buffer of bytes that are passed to TLS or returned by it."""

    __slots__ = ("_held", "_ended")

    def __init__(self):
        self._held = bytearray()
        self._ended = False

    def read(self, size=-1, /):
        if size < 0 or size >= len(self._held):
            data, self._held = bytes(self._held), bytearray()
            return data
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def write(self, data, /):
        if self._ended:
            raise SSLError("cannot write() after write_eof()")
        data = memoryview(data)
        self._held += data
        return data.nbytes

    def write_eof(self):
        self._ended = True

    @property
    def pending(self):
        return len(self._held)

    @property
    def eof(self):
        return self._ended and not self._held


class SSLSession:
    """Placeholder: the host manages sessions."""


class Certificate:
    """Placeholder type."""


def _nid2obj(nid):
    if nid not in _OBJECTS:
        raise ValueError(f"unknown NID {nid}")
    return _OBJECTS[nid]


def _txt2obj(txt, name=False):
    for found in _OBJECTS.values():
        if txt == found[3] or name and txt in found[:2]:
            return found
    raise ValueError(f"unknown object '{txt[:100]}'")


def module():
    """Returns `_ssl` as a module."""
    made = types.ModuleType("_ssl")
    space = made.__dict__
    space.update(_CONSTANTS)
    for kind in (
        SSLError, SSLZeroReturnError, SSLWantReadError, SSLWantWriteError, SSLSyscallError, SSLEOFError,
        SSLCertVerificationError, _SSLContext, MemoryBIO, SSLSession, Certificate,
    ):
        space[kind.__name__] = kind
        if issubclass(kind, OSError):
            kind.__module__ = "ssl"
    space["nid2obj"], space["txt2obj"] = _nid2obj, _txt2obj
    space["RAND_status"] = lambda: True
    space["RAND_bytes"] = os.urandom
    space["RAND_add"] = lambda data, entropy: None
    space["get_default_verify_paths"] = lambda: ("SSL_CERT_FILE", "", "SSL_CERT_DIR", "")
    space["get_sigalgs"] = lambda: []
    space["_test_decode_cert"] = lambda path: {}
    return made
