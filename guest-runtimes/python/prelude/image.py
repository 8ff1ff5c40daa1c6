"""Prepares a started interpreter for its image; runs once, at the end of the image's creation."""
import gc
import importlib
import os
import platform
import sys
import warnings

import _reactor
from _codebox import (
    descriptors, door, frames, headers, integers, loop, mend, missing, online, rehearse, seeds, start
)

# Free memory that an image leaves in the guest's heap, so that a short program does not grow it.
_HEADROOM = 4 << 20


def prepare(modules):
    """Imports `modules`, installs every hook and leaves no trace of this call."""
    # Libraries read their settings when they are imported, so the environment is that of every job.
    _settle_environment()
    # Programs that start from the image must not get a library's warnings about its own import.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        online.hide()
        integers.install()
        for name in modules:
            importlib.import_module(name)
    mend.install()
    headers.install()
    loop.install()
    missing.install()
    descriptors.install()
    if "matplotlib" in sys.modules:
        _settle_matplotlib()
    door.tell("facts", facts={"version": platform.python_version()})
    frames.install(_reactor)
    start.install()
    os.chdir("/work")
    _settle_logging()
    rehearse.run()
    seeds.install()
    _settle_environment()
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


def _settle_environment():
    os.environ.clear()
    os.environ.update(start.ENVIRONMENT)


def _settle_logging():
    """Lets programs end without flushing the handlers that every image has and that were never written to."""
    import atexit
    import logging

    known = list(logging._handlerList)

    def shutdown():
        if logging._handlerList != known:
            logging.shutdown()

    atexit.unregister(logging.shutdown)
    atexit.register(shutdown)


def _settle_matplotlib():
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
    for function in (
        getattr(matplotlib.font_manager, "_get_font", None),
        getattr(matplotlib.text, "_get_text_metrics_with_cache_impl", None),
        getattr(matplotlib.text, "_get_text_metrics_function", None),
    ):
        if hasattr(function, "cache_clear"):
            function.cache_clear()
    gc.collect()
