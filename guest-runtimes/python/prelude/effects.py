"""Effects of imports that an image does not keep, or that are not the same in every program.

The host looks for those that it can see: input, output, files, dates, random bytes, the network.
"""
import builtins
import gc
import os
import random
import sys
import types
import weakref

from _codebox import draws, start


def _observed(name):
    def method(self, *args, **kwargs):
        self.was_used = True
        return getattr(list, name)(self, *args, **kwargs)

    return method


def _reflected_add(self, other):
    self.was_used = True
    return other + list(self)


_CREATION = ("__new__", "__init__", "__getattribute__")

# A list that records its use.
_Arguments = type(
    "list",
    (list,),
    {name: _observed(name) for name, value in vars(list).items() if callable(value) and name not in _CREATION}
    | {"was_used": False, "__radd__": _reflected_add},
)


class _Main(types.ModuleType):
    """The module `__main__`, whose attributes are not the same in every program."""

    def __getattribute__(self, name):
        _uses.append("the attributes of __main__")
        return super().__getattribute__(name)


class _Token:
    """A value of a namespace, which lives as long as that."""


# Names of what the imports have used.
_uses = []

# Functions whose results or effects an image does not keep.
_FUNCTIONS = ((gc, "disable"), (gc, "enable"), (gc, "isenabled"), (gc, "freeze"), (random, "getstate"))


class _NotFound:
    """The last finder, which records the modules that no other one has found."""

    def __init__(self):
        self.names = set()

    def find_spec(self, name, path=None, target=None):
        if path is None:
            self.names.add(name.partition(".")[0])


class Observation:
    """The observation of a program that has only imports, and then sets `completed`, in three steps. The host observes the
    second one, and the collector, which reads the time, does not run in it."""

    def __init__(self, job):
        self._job = job
        self._modules = set(sys.modules)
        self._draws = draws.Observation()
        self._not_found = _NotFound()
        self._lists = {name: _Arguments(getattr(sys, name)) for name in ("argv", "orig_argv")}
        for name, arguments in self._lists.items():
            setattr(sys, name, arguments)
        self._functions = [(module, name, getattr(module, name)) for module, name in _FUNCTIONS]
        self._recorded = []
        self._main = _Main("__main__")
        self._space = {"__name__": "__main__", "__builtins__": builtins}
        gc.collect()
        gc.freeze()
        gc.disable()

    def run(self, source):
        """Runs the program."""
        sys.path[:] = start.search_path(self._job)
        sys.modules["__main__"] = self._main
        sys.meta_path.append(self._not_found)
        for module, name, function in self._functions:
            recorded = _recorded(module.__name__ + "." + name, function)
            self._recorded.append(weakref.ref(recorded))
            setattr(module, name, recorded)
        del recorded
        hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "_codebox"}
        for name in hidden:
            del sys.modules[name]
        _uses.clear()
        with self._draws:
            self._failure = start.run_text(source, "<string>", self._space)
        self._uses = list(_uses)
        self._has_main = sys.modules.get("__main__") is self._main
        sys.modules.update(hidden)
        for module, name, function in self._functions:
            setattr(module, name, function)
        if self._not_found in sys.meta_path:
            sys.meta_path.remove(self._not_found)
        start.flush()

    def effect(self):
        """Returns a description of an effect that an image must not keep, or `None`."""
        gc.enable()
        return self._effect_on_state() or self._kept_reference()

    def modules(self):
        """Returns the names of the modules that were imported or not found, without those inside packages."""
        added = {name.partition(".")[0] for name in set(sys.modules) - self._modules}
        return sorted((added | self._not_found.names) - {"__main__"})

    def _effect_on_state(self):
        if self._failure is not None:
            return f"raise {type(self._failure).__name__}"
        if "completed" not in self._space:
            return "do not complete"
        if self._uses:
            return "use " + self._uses[0]
        if names := self._draws.modules():
            return "draw random numbers in " + ", ".join(names)
        for name, arguments in self._lists.items():
            if getattr(sys, name) is not arguments or arguments.was_used:
                return "use the program's arguments"
        if not self._has_main:
            return "replace __main__"
        if sys.path != start.search_path(self._job):
            return "change sys.path"
        if os.getcwd() != self._job["cwd"]:
            return "change the working directory"
        if dict(os.environ) != start.ENVIRONMENT:
            return "change the environment"
        if kinds := [kind.__qualname__ for kind in {type(one) for one in gc.get_objects()} if _is_finalised(kind)]:
            return "leave objects with finalisers: " + ", ".join(kinds)

    def _kept_reference(self):
        token = self._space["token"] = _Token()
        kept = [("namespace", weakref.ref(token)), ("module", weakref.ref(self._main))]
        kept += [("arguments", weakref.ref(arguments)) for arguments in self._lists.values()]
        kept += [("recorded functions", reference) for reference in self._recorded]
        del token
        self._main = self._space = self._lists = None
        sys.argv, sys.orig_argv = [], []
        gc.collect()
        for what, reference in kept:
            if reference() is not None:
                return f"keep the program's {what}"


def _recorded(name, function):
    def call(*args, **kwargs):
        _uses.append(name)
        return function(*args, **kwargs)

    return call


def _is_finalised(kind):
    # Files are closed with their descriptors, which the host counts, and the others are memory.
    return kind.__module__ not in ("io", "_io", "builtins", __name__) and start.has_finaliser(kind)
