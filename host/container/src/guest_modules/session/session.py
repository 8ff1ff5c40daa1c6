"""Runs the cells of a session, which the host sends one after the other."""
import json
import os
import signal
import sys

# This file cannot be imported, and the modules of codebox come last.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
_modules = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python")
if _modules in sys.path:
    sys.path.remove(_modules)
sys.path.append(_modules)

import _host
from _codebox import cells, notebooks, results

# The streams of the interpreter: a cell may close its own.
_streams = os.dup(1), os.dup(2)

_process = os.getpid()


def _run(job, source):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return cells.run(job, source)
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(mark):
    for stream in _streams:
        try:
            os.write(stream, mark)
        except OSError:
            pass


def main():
    results.install()
    notebooks.install()
    sys.stdout.reconfigure(line_buffering=True)
    sys.path.insert(0, os.getcwd())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        head, _, source = _host.call(b'{"op": "cell"}').partition(b"\n")
        job = json.loads(head)
        status = _run(job, source)
        if os.getpid() != _process:
            # A process that the cell has forked ends with it.
            os._exit(status & 0xFF)
        _end(job["mark"].encode())
        _host.call(json.dumps({"op": "ended", "status": status}).encode())


main()
