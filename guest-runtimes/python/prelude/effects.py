"""Effects of imports that an image does not keep, or that are not the same in every program.

The host looks for those that it can see: output, files, dates, random bytes.
"""
import gc
import os
import sys
import weakref

from _codebox import draws, start


def _observed(name):
    def method(self, *args, **kwargs):
        self.was_used = True
        return getattr(list, name)(self, *args, **kwargs)

    return method


_CREATION = ("__new__", "__init__", "__getattribute__")

# A list that records its use.
_Arguments = type(
    "list",
    (list,),
    {name: _observed(name) for name, value in vars(list).items() if callable(value) and name not in _CREATION}
    | {"was_used": False},
)


class _Token:
    """A value of a namespace, which lives as long as that."""


class Observation:
    """The observation of a program that has only imports, and then sets `completed`, in three steps. The host observes the second one, and the collector,
    which reads the time, does not run in it."""

    def __init__(self, job):
        self._job = job
        self._modules = set(sys.modules)
        self._draws = draws.Observation()
        self._arguments = sys.argv = _Arguments(job["argv"])
        gc.collect()
        gc.freeze()
        gc.disable()

    def run(self, source):
        """Runs the program."""
        with self._draws:
            self._status = start.program(self._job, source)
        start.flush()
        self._main = sys.modules.pop("__main__")

    def effect(self):
        """Returns a description of an effect that an image must not keep, or `None`."""
        gc.enable()
        return self._effect_on_state() or self._kept_reference()

    def added_modules(self):
        """Returns the names of the modules that were imported, without those inside packages."""
        return sorted({name.partition(".")[0] for name in set(sys.modules) - self._modules})

    def _effect_on_state(self):
        if not vars(self._main).get("completed"):
            return f"end with status {self._status}"
        if names := self._draws.modules():
            return "draw random numbers in " + ", ".join(names)
        if sys.argv is not self._arguments or self._arguments.was_used:
            return "use the program's arguments"
        if sys.path != start.search_path(self._job):
            return "change sys.path"
        if os.getcwd() != self._job["cwd"]:
            return "change the working directory"
        if dict(os.environ) != start.ENVIRONMENT:
            return "change the environment"
        if kinds := [kind.__qualname__ for kind in {type(one) for one in gc.get_objects()} if _is_finalised(kind)]:
            return "leave objects with finalisers: " + ", ".join(kinds)

    def _kept_reference(self):
        token = vars(self._main)["token"] = _Token()
        token, arguments = weakref.ref(token), weakref.ref(self._arguments)
        self._main, self._arguments, sys.argv = None, None, []
        gc.collect()
        if token() is not None:
            return "keep the program's namespace"
        if arguments() is not None:
            return "keep the program's arguments"


def _is_finalised(kind):
    # Files are closed with their descriptors, which the host counts, and the others are memory.
    return kind.__module__ not in ("io", "_io", "builtins", __name__) and start.has_finaliser(kind)
