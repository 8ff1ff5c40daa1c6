"""Functions that replace those of the library, with the same names, modules and docstrings."""
import gc
import sys

# Modules that natively define the functions, by the module that exports them.
_HOMES = {"os": "posix"}


def copy_metadata(function, module, name, like=None):
    """Gives a function the names and the docstring of the one that it replaces."""
    function.__module__ = getattr(like, "__module__", None) or module
    function.__name__ = name
    function.__qualname__ = getattr(like, "__qualname__", None) or name
    if like is not None:
        function.__doc__ = like.__doc__ or function.__doc__
    return function


def install(module, name, function):
    """Puts a function into a module, and adds it to the names that the module exports."""
    home = _HOMES.get(module.__name__, module.__name__)
    like = getattr(module, name, None)
    setattr(module, name, copy_metadata(function, home, name, like))
    if home != module.__name__ and function.__module__ == home and home in sys.modules:
        setattr(sys.modules[home], name, function)
    exported = getattr(module, "__all__", None)
    if exported is not None and name not in exported and not name.startswith("_"):
        module.__all__ = type(exported)([*exported, name])


def replace_in_type(kind, **members):
    """Replaces members of a built-in type whose objects exist everywhere; a built-in type does not allow assignment."""
    (space,) = gc.get_referents(kind.__dict__)
    for name, member in members.items():
        if callable(member):
            copy_metadata(member, None, name, space.get(name))
            member.__module__ = kind.__module__
            member.__qualname__ = f"{kind.__qualname__}.{name}"
    space.update(members)
    sys._clear_internal_caches()
