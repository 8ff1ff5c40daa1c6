"""The module `IPython.display` for programs that were written for notebooks, unless the package IPython is there."""
import json
import sys
import types

from _codebox import results

_bootstrap = sys.modules["_frozen_importlib"]

# Module of the classes, which their `repr` names.
_CORE = "IPython.core.display"

_NAMES = ("IPython", "IPython.display", "IPython.core", _CORE)


class DisplayObject:
    """Object with one form, from a text, bytes or a file."""

    _mime = None

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if filename is None and type(data) is str and url is None and self._is_file(data):
            filename, data = data, None
        if url is not None:
            raise ValueError("display objects are not fetched: fetch the data and pass it")
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
            data = data if self._binary else data.decode()
        self.data, self.url, self.filename, self.metadata = data, url, filename, metadata or {}

    _binary = False

    def _is_file(self, data):
        return False

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/plain": repr(self)}
        if self._mime is not None and self.data is not None:
            data[self._mime] = self.data
        return data, ({self._mime: self.metadata} if self.metadata else {})

    def __repr__(self):
        return f"<{type(self).__module__}.{type(self).__name__} object>"


class TextDisplayObject(DisplayObject):
    pass


class Pretty(TextDisplayObject):
    def __repr__(self):
        return str(self.data)


class HTML(TextDisplayObject):
    _mime = "text/html"


class Markdown(TextDisplayObject):
    _mime = "text/markdown"


class Latex(TextDisplayObject):
    _mime = "text/latex"


class Math(TextDisplayObject):
    _mime = "text/latex"

    def __init__(self, data=None, **options):
        super().__init__(data, **options)
        self.data = f"$\\displaystyle {str(self.data).strip('$')}$"


class SVG(DisplayObject):
    _mime = "image/svg+xml"


class Javascript(TextDisplayObject):
    _mime = "application/javascript"


class JSON(DisplayObject):
    _mime = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **options):
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, (str, bytes)):
            self.data = json.loads(self.data)


class GeoJSON(JSON):
    _mime = "application/geo+json"


class Image(DisplayObject):
    _binary = True

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, **options):
        super().__init__(data, url, filename, options.get("metadata"))
        start = bytes(self.data[:4]) if isinstance(self.data, (bytes, bytearray)) else b""
        kinds = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
        found = [kind for mark, kind in kinds.items() if start.startswith(mark)]
        self.format = (format or (found[0] if found else "png")).lower().replace("jpg", "jpeg")
        self._mime = "image/" + self.format
        self.metadata = {**self.metadata, **{k: v for k, v in (("width", width), ("height", height)) if v is not None}}

    def _is_file(self, data):
        return True


class IFrame:
    def __init__(self, src, width, height, extras=None, **params):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return f'<iframe width="{self.width}" height="{self.height}" src="{self.src}" frameborder="0" allowfullscreen></iframe>'


def publish_display_data(data, metadata=None, *, transient=None, update=False, **_ignored):
    """Shows an object whose forms are given."""
    results.display(data, metadata=metadata, raw=True, transient=transient, update=update)


def _displays(name, kind):
    """Returns a function that shows objects in one form."""

    def function(*objects, raw=False, metadata=None):
        objects = [{kind: one} for one in objects] if raw else objects
        results.display(*objects, raw=raw, metadata=metadata, include=[kind])

    function.__name__ = function.__qualname__ = name
    return function


_KINDS = {
    "display_html": "text/html",
    "display_javascript": "application/javascript",
    "display_jpeg": "image/jpeg",
    "display_json": "application/json",
    "display_latex": "text/latex",
    "display_markdown": "text/markdown",
    "display_pdf": "application/pdf",
    "display_png": "image/png",
    "display_pretty": "text/plain",
    "display_svg": "image/svg+xml",
}

_FUNCTIONS = {
    "DisplayHandle": results.DisplayHandle,
    "clear_output": results.clear_output,
    "display": results.display,
    "publish_display_data": publish_display_data,
    "update_display": results.update_display,
    **{name: _displays(name, kind) for name, kind in _KINDS.items()},
}


def get_ipython():
    """Returns None, as outside of IPython."""


_CLASSES = (
    DisplayObject, TextDisplayObject, Pretty, HTML, Markdown, Latex, Math, SVG, Javascript, JSON, GeoJSON, Image, IFrame,
)
for _kind in _CLASSES:
    _kind.__module__ = _CORE


class _Finder:
    """Finder after all others: a package that is installed comes first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        # A part of an installed package is not found here.
        if name not in _NAMES or (name != "IPython" and getattr(sys.modules.get("IPython"), "__file__", None)):
            return None
        spec = _bootstrap.ModuleSpec(name, _Finder, is_package=name in ("IPython", "IPython.core"))
        return spec

    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name)

    @staticmethod
    def exec_module(module):
        if module.__name__ == "IPython":
            module.get_ipython = get_ipython
            module.version_info, module.__version__ = (8, 0, 0, ""), "8.0.0"
        elif module.__name__ != "IPython.core":
            module.__dict__.update(_FUNCTIONS, **{kind.__name__: kind for kind in _CLASSES})


def install():
    sys.meta_path.append(_Finder)
