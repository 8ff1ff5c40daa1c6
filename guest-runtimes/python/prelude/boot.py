"""Creates the package `_codebox` from sources that the host inserts in place of SOURCES; runs once, for an image."""
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
        # `frames` explains the end of the file name.
        exec(compile(source, "<codebox importlib._bootstrap>/" + name, "exec"), module.__dict__)


_load(SOURCES)
