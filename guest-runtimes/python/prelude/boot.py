"""Makes the package `_codebox` out of sources that the host puts in place of SOURCES; runs once, for an image."""
import sys
import types


def _load(sources):
    package = types.ModuleType("_codebox")
    package.__path__ = []
    sys.modules["_codebox"] = package
    for name, source in sources:
        module = types.ModuleType("_codebox." + name)
        module.__package__ = "_codebox"
        sys.modules[module.__name__] = module
        setattr(package, name, module)
        # For the end of the name, see `frames`.
        exec(compile(source, "<codebox importlib._bootstrap>/" + name, "exec"), module.__dict__)


_load(SOURCES)
