"""Runs functions of the prelude when a module of the library has been loaded, by any importer and at any time."""
import sys

_bootstrap = sys.modules["_frozen_importlib"]

# Directory of the interpreter's own library.
_LIBRARY = ("built-in", "frozen", "/usr/local/lib/python")

# Functions by module name; each runs once, with the module.
_waiting = {}

_load = _bootstrap._load_unlocked


def _load_unlocked(spec):
    module = _load(spec)
    if spec.name in _waiting:
        _loaded(spec, module)
    return module


def _loaded(spec, module):
    # A program may have a module of its own with that name.
    if isinstance(spec.origin, str) and spec.origin.startswith(_LIBRARY):
        _waiting.pop(spec.name)(module)


def after_import(name, function):
    """Calls `function` with the module `name` of the library, now or when it has been loaded."""
    module = sys.modules.get(name)
    if module is None:
        _waiting[name] = function
    else:
        function(module)


def install():
    # The interpreter omits the frames of the import machinery from tracebacks, by the name of its file.
    code = _load_unlocked.__code__.replace(co_filename=_load.__code__.co_filename)
    _load_unlocked.__code__ = code
    _bootstrap._load_unlocked = _load_unlocked
