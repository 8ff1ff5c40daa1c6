"""Gives a job with network grants its `socket`, `ssl` and `select`, and takes nothing from the others.

What clients load is loaded while the image is made, with `ssl` in reach; every job finds it out of reach again, as the
interpreter has it, until it was granted a host or has packages.
"""
import importlib
import select
import socket
import sys

from _codebox import sockets, tls, waiting

# The modules that only some jobs find.
_HIDDEN = ("_ssl", "ssl")
_hidden = {}

# The library's modules that hold what clients are made of, in the order in which they can be loaded.
_CLIENTS = ("ssl", "http.client", "urllib.request")


def prepare():
    """Loads the clients' modules; before anything else does, so that all of it finds them so."""
    before = {name: getattr(socket, name) for name in sockets.NAMES if hasattr(socket, name)}
    _lay(socket, sockets.NAMES)
    sys.modules["_ssl"] = tls.module()
    for name in _CLIENTS:
        importlib.import_module(name)
    for name in sockets.NAMES:
        if name not in before:
            delattr(socket, name)
    _lay(socket, before)


def hide():
    """Puts `ssl` out of reach again, once the prelude has loaded all that looks for it."""
    for name in _HIDDEN:
        _hidden[name] = sys.modules.pop(name)


def enter():
    """Connects a job that has grants."""
    sys.modules.update(_hidden)
    _lay(socket, sockets.NAMES)
    _lay(select, waiting.NAMES)
    waiting.selector = waiting.Selector


def show():
    """Lets a job without grants load what wants `ssl` to be there: packages do that of which it uses another part."""
    sys.modules.update(_hidden)


def _lay(module, names):
    for name, value in names.items():
        setattr(module, name, value)


# What the prelude's other modules load finds `ssl`: asyncio does not look for it again.
prepare()
