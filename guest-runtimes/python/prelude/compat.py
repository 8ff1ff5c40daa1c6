"""Adds features that the interpreter's build left out and that programs rely on."""
import errno
import hashlib
import os
import platform
import sys
import tarfile
import traceback

from _codebox import patches


def _pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """PKCS #5 v2.0, RFC 8018 section 5.2, over `hmac`; `hashlib`'s own comes from a library that is not built in."""
    import hmac

    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    inner = hmac.new(bytes(password), digestmod=hash_name)
    size = inner.digest_size
    dklen = size if dklen is None else dklen
    if dklen < 1:
        raise ValueError("key length must be greater than 0.")
    derived = b""
    block = 0
    while len(derived) < dklen:
        block += 1
        mac = inner.copy()
        mac.update(bytes(salt) + block.to_bytes(4, "big"))
        last = mac.digest()
        total = int.from_bytes(last, "big")
        for _ in range(iterations - 1):
            mac = inner.copy()
            mac.update(last)
            last = mac.digest()
            total ^= int.from_bytes(last, "big")
        derived += total.to_bytes(size, "big")
    return derived[:dklen]


def _libc_ver(executable=None, lib="", version="", chunksize=16384):
    return lib, version


def _root():
    """Returns the owner that `os.stat` reports for every file here, which is also the user; programs check before they
    act."""
    return 0


def _chown(path, uid, gid, *, dir_fd=None, follow_symlinks=True):
    """Changes the owner. Every file has the same owner, so any other owner is rejected with EPERM."""
    os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    if uid not in (-1, _root()) or gid not in (-1, _root()):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)


def _extracted_owner(self, tarinfo, targetpath, numeric_owner):
    """Skips the change of owner, as tarfile does for an unprivileged user."""


class _ShownSys:
    """`sys` for the traceback module, which would otherwise add to the error for a missing module that site is
    disabled.

    `sys.flags` itself has to stay: the interpreter writes into that very object.
    """

    class flags:
        no_site = 0

    def __getattr__(self, name):
        return getattr(sys, name)


def install():
    traceback.sys = _ShownSys()
    if not hasattr(hashlib, "pbkdf2_hmac"):
        patches.install(hashlib, "pbkdf2_hmac", _pbkdf2_hmac)
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        if not hasattr(os, name):
            patches.install(os, name, lambda: _root())
    if not hasattr(os, "getgroups"):
        patches.install(os, "getgroups", lambda: [_root()])
    if not hasattr(os, "chown"):
        patches.install(os, "chown", _chown)
        patches.install(os, "lchown", lambda path, uid, gid: _chown(path, uid, gid, follow_symlinks=False))
        patches.install(os, "fchown", lambda fd, uid, gid: _chown(fd, uid, gid))
    tarfile.TarFile.chown = patches.copy_metadata(_extracted_owner, "tarfile", "chown", tarfile.TarFile.chown)
    # The original functions start processes.
    platform._Processor.from_subprocess = staticmethod(lambda: "")
    patches.install(platform, "_syscmd_file", lambda target, default="": default)
    # The original opens `sys.executable`, which names no file here.
    patches.install(platform, "libc_ver", _libc_ver)
