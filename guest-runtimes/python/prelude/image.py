"""Prepares a started interpreter for its image: `begin`, the imports of programs if there are any, and `finish`."""
import gc
import importlib
import os
import platform
import sys
import types
import warnings

import _reactor
from _codebox import (
    cells, compat, databases, descriptors, effects, frames, headers, host, integers, loop, missing, network, notebooks, seeds, start, terminals, warm_up
)

# Free memory that an image leaves in the guest's heap, so that a short program does not grow it.
_HEADROOM = 4 << 20


def begin(modules):
    """Imports `modules` and installs every hook."""
    # Libraries read their settings when they are imported, so the environment is that of every job.
    _reset_environment()
    # Programs that start from the image must not get a library's warnings about its own import.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network.hide_ssl()
        integers.install()
        terminals.install()
        for name in modules:
            importlib.import_module(name)
    compat.install()
    databases.install()
    headers.install()
    loop.install()
    missing.install()
    descriptors.install()
    if "matplotlib" in sys.modules:
        _preload_matplotlib()
    host.notify("facts", facts={"version": platform.python_version()})
    frames.install(_reactor)
    start.install()
    notebooks.install()
    os.chdir("/work")
    _skip_idle_shutdown()
    warm_up.run()
    _run_texts_in_new_module()


def before_imports(job):
    """Prepares the imports of programs, which run like a program."""
    global _observation
    start.renew(job)
    _observation = effects.Observation(job)


def run_imports(source):
    """Runs a program that has only imports."""
    _observation.run(source.encode())
    _run_texts_in_new_module()


def after_imports():
    """Fails if the imports had an effect that an image must not keep."""
    effect = _observation.effect()
    if effect:
        raise RuntimeError("the imports " + effect)
    host.call("modules", modules=_observation.modules())


def _run_texts_in_new_module():
    # The reactor runs the host's texts in this module.
    sys.modules["__main__"] = types.ModuleType("__main__")


def finish():
    """Leaves no trace of the calls before."""
    start.take_turns()
    seeds.install()
    _reset_environment()
    sys.modules.pop("__main__", None)
    _hide()
    for path in [p for p in sys.path_importer_cache if not p.startswith("/usr/local/lib/")]:
        del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()
    bytearray(_HEADROOM)


def _hide():
    """Removes this package from `sys.modules`, after which no part of it is imported."""
    for name in [name for name in sys.modules if name == "_codebox" or name.startswith("_codebox.")]:
        del sys.modules[name]


def _reset_environment():
    os.environ.clear()
    os.environ.update(start.ENVIRONMENT)


def _skip_idle_shutdown():
    """Lets programs end without flushing the handlers that every image has and that were never written to."""
    import atexit
    import logging

    known = list(logging._handlerList)

    def shutdown():
        if logging._handlerList != known:
            logging.shutdown()

    atexit.unregister(logging.shutdown)
    atexit.register(shutdown)


def _preload_matplotlib():
    """Loads what the first figure loads, except for the fonts, which are open files and are opened when needed."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.font_manager
    import matplotlib.pyplot as plt
    import matplotlib.text

    figure = plt.figure()
    plt.plot([0, 1])
    plt.title("a")
    figure.canvas.draw()
    plt.close("all")
    del figure
    cells.close_caches()
