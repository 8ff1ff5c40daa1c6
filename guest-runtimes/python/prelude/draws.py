"""Random numbers that modules draw when they are imported: which modules do, and fresh ones for programs that start from an
image with such modules."""
import importlib._bootstrap_external as external
import itertools
import random
import sys


def _renew_rich_style(module):
    # The first number of the names of links in a terminal.
    if isinstance(getattr(module, "_id_generator", None), itertools.count):
        module._id_generator = itertools.count(random.getrandbits(24))


# The function itself: its uses by modules are recorded.
_getstate = random.getstate

# The modules whose numbers are not the same in every program that starts from an image, with the functions that draw them again.
_RENEWED = {"rich.style": _renew_rich_style}


def renew():
    """Draws the numbers of modules that an image contains again."""
    for name, renew_module in _RENEWED.items():
        if name in sys.modules:
            renew_module(sys.modules[name])


class Observation:
    """A period in which the modules that draw numbers are found."""

    def __enter__(self):
        self._loader = external._LoaderBasics
        self._original = self._loader.__dict__["exec_module"]
        self._names, self._drawn = ["__main__"], {}
        self._states = _states()

        def exec_module(loader, module):
            self._charge()
            self._names.append(module.__name__)
            try:
                self._original(loader, module)
            finally:
                self._charge()
                self._names.pop()

        self._loader.exec_module = exec_module
        return self

    def __exit__(self, *_ignored):
        self._loader.exec_module = self._original
        self._charge()

    def _charge(self):
        """Attributes numbers that were drawn since the last call to the innermost module that is being imported."""
        states = _states()
        # A generator that was not loaded before has its first state.
        if any(states[name] != state for name, state in self._states.items()):
            self._drawn[self._names[-1]] = None
        self._states = states

    def modules(self):
        """Returns the names of modules whose numbers would be the same in every program."""
        return [name for name in self._drawn if name not in _RENEWED]


def _states():
    states = {"random": _getstate()}
    if "numpy.random" in sys.modules:
        state = sys.modules["numpy.random"].get_state(legacy=False)["state"]
        states["numpy.random"] = state["key"].tobytes(), state["pos"]
    return states
