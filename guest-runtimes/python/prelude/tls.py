"""The module `_ssl`, which the interpreter was built without, as far as clients need it: the host speaks TLS.

The library's own `ssl` stands on it. The host verifies every certificate against its own roots, whatever a context says:
nothing here can switch that off, and certificates that a context loads are looked at and not trusted.
"""
import errno
import json
import os
import sys
import types

from _codebox import net

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
    # The interface's version: libraries ask whether it is recent enough.
    "OPENSSL_VERSION": "OpenSSL 3.0.0 (its interface; the host speaks TLS)",
    "OPENSSL_VERSION_INFO": (3, 0, 0, 0, 0), "OPENSSL_VERSION_NUMBER": 0x30000000,
    "_OPENSSL_API_VERSION": (3, 0, 0, 0, 0), "_DEFAULT_CIPHERS": "@SECLEVEL=2:ECDH+AESGCM",
}

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
    """The connection was closed as TLS says."""


class SSLWantReadError(SSLError):
    """There is nothing to be read yet."""


class SSLWantWriteError(SSLError):
    """Nothing can be written yet."""


class SSLSyscallError(SSLError):
    """An error of the system below TLS."""


class SSLEOFError(SSLError):
    """The connection ended within TLS."""


class SSLCertVerificationError(SSLError, ValueError):
    """The other side's certificate does not hold."""

    verify_code = 1
    verify_message = ""


def error(kind, text):
    """The exception for what the host says of TLS."""
    if kind == "certificate":
        made = SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {text}")
        made.library, made.reason, made.verify_message = "SSL", "CERTIFICATE_VERIFY_FAILED", text
        return made
    return SSLError(1, f"[SSL] {text}")


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
        for name, value in (
            ("protocol", protocol), ("options", 0x82420050), ("verify_flags", 0x8000), ("minimum_version", -2),
            ("maximum_version", -1), ("sni_callback", None), ("post_handshake_auth", False), ("_host_flags", 4),
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
        """Which are used is the host's to say; all of its are sound."""

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
        raise SSLError(1, "[SSL] TLS apart from a connection is not available in this sandbox")


class _Connection:
    """TLS on one socket."""

    session = None
    session_reused = False

    def __init__(self, sock, context, name):
        import weakref

        self._sock = weakref.ref(sock)
        self.context = context
        self._name = name
        self._facts = None
        self._read, self._write = sock_functions()

    def _alive(self):
        sock = self._sock()
        if sock is None:
            raise ReferenceError("the socket is gone")
        return sock

    def do_handshake(self):
        if self._facts is not None:
            return
        sock = self._alive()
        told = json.dumps({"name": self._name or sock._host, "alpn": self.context._alpn}).encode()
        try:
            answer = net.ask(net.TLS, sock._opened(), 0, sock._timeout or None, told)
        except net.Late:
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
        except TimeoutError:
            raise TimeoutError("The write operation timed out") from None

    def pending(self):
        return 0

    def shutdown(self):
        sock = self._alive()
        net.ask(net.SHUTDOWN, sock._opened())
        return sock

    def getpeercert(self, binary_form=False):
        if self._facts is None:
            raise ValueError("handshake not done yet")
        if binary_form:
            return bytes.fromhex(self._facts["certificate"])
        # What the host has verified; it reads no more out of a certificate than that.
        return {"subjectAltName": (("DNS", self._facts["name"]),)}

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


def sock_functions():
    from _codebox import sockets

    return sockets.Socket._recv, sockets.Socket.send


class MemoryBIO:
    """Only a name: see `_wrap_bio`."""

    def __init__(self):
        raise SSLError(1, "[SSL] TLS apart from a connection is not available in this sandbox")


class SSLSession:
    """Sessions are the host's."""


class Certificate:
    """Only a name."""


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
    """`_ssl` as a module."""
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
