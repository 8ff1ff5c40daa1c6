"""Functions that run when a module of a package has been loaded."""
import importlib.util
import sys

_waiting = {}


class _Finder:
    """Finder that only notices which modules are loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        function = _waiting.pop(name, None)
        if function is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            function(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(name, function):
    """Calls `function` with the module `name`, now or when it has been loaded."""
    module = sys.modules.get(name)
    if module is None:
        _waiting[name] = function
    else:
        function(module)


sys.meta_path.insert(0, _Finder)
