"""Provides `socket`, `ssl` and `select` to jobs with network grants, without affecting other jobs.

Modules that clients load are loaded while the image is made, with `ssl` available. Each job starts without it, as the
interpreter has none, until the job has a grant for a host or packages.
"""
import importlib
import select
import socket
import sys

from _codebox import select_poll, sockets, tls

# Modules that only some jobs can import.
_HIDDEN = ("_ssl", "ssl")
_hidden = {}

# The library's modules that clients are based on, in the order in which they can be loaded.
_CLIENTS = ("ssl", "http.client", "urllib.request")


def prepare():
    """Loads the modules of clients, before any other import, so that all importers find the same ones."""
    before = {name: getattr(socket, name) for name in sockets.NAMES if hasattr(socket, name)}
    _set_attributes(socket, sockets.NAMES)
    sys.modules["_ssl"] = tls.module()
    for name in _CLIENTS:
        importlib.import_module(name)
    for name in sockets.NAMES:
        if name not in before:
            delattr(socket, name)
    _set_attributes(socket, before)


def hide_ssl():
    """Makes `ssl` unavailable again, after the prelude has loaded all modules that look for it."""
    for name in _HIDDEN:
        _hidden[name] = sys.modules.pop(name)


def enable_sockets():
    """Enables connections for a job that has grants."""
    sys.modules.update(_hidden)
    _set_attributes(socket, sockets.NAMES)
    _set_attributes(select, select_poll.NAMES)
    select_poll.selector = select_poll.Selector


def enable_ssl_import():
    """Lets a job without grants import modules that require `ssl`: packages do so even if the job uses only another
    part."""
    sys.modules.update(_hidden)


def _set_attributes(module, names):
    for name, value in names.items():
        setattr(module, name, value)


# Runs on import, so that modules of the prelude's other parts find `ssl`: asyncio does not look for it again.
prepare()
