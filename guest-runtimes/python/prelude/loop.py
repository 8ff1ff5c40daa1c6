"""An event loop for an interpreter without sockets: the selector loop without its wake-up pipe.

The pipe serves to wake a loop from another thread or from a signal handler. Neither exists here.
"""
import asyncio
import selectors
import socket
import subprocess
from asyncio import base_events, events, selector_events

from _codebox import missing, select_poll


class EventLoop(selector_events.BaseSelectorEventLoop):
    """asyncio's selector loop; `asyncio.run` and everything on top of it work as elsewhere."""

    def __init__(self, selector=None):
        super().__init__(selector or _selector())

    def _make_self_pipe(self):
        self._internal_fds += 1

    def _close_self_pipe(self):
        self._internal_fds -= 1

    def _write_to_self(self):
        pass

    def _process_self_data(self, data):
        pass

    def add_signal_handler(self, sig, callback, *args):
        raise missing.optional("signals", NotImplementedError("signals are not available in this sandbox"))

    def remove_signal_handler(self, sig):
        return False

    async def getaddrinfo(self, host, port, *, family=0, type=0, proto=0, flags=0):
        if select_poll.selector is None:
            return await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)
        return socket.getaddrinfo(host, port, family, type, proto, flags)

    async def _make_subprocess_transport(self, protocol, args, shell, *others, **options):
        # Raises the same error as any other attempt to start a process.
        return subprocess.Popen(args, shell=shell)


def _selector():
    return (select_poll.selector or selectors.SelectSelector)()


EventLoop.__module__ = "asyncio"


class _Policy(getattr(events, "_BaseDefaultEventLoopPolicy", getattr(events, "BaseDefaultEventLoopPolicy", object))):
    _loop_factory = EventLoop
    _is_set = False

    def get_event_loop(self):
        # Until Python 3.13, the first call made a loop, and programs in use do so.
        if self._local._loop is None and not self._is_set:
            self.set_event_loop(self.new_event_loop())
        return super().get_event_loop()

    def set_event_loop(self, loop):
        self._is_set = True
        super().set_event_loop(loop)


def install():
    asyncio.EventLoop = asyncio.SelectorEventLoop = EventLoop
    for name in ("_DefaultEventLoopPolicy", "DefaultEventLoopPolicy"):
        if hasattr(asyncio, name):
            setattr(asyncio, name, _Policy)
    setter = getattr(events, "_set_event_loop_policy", None) or events.set_event_loop_policy
    setter(_Policy())
