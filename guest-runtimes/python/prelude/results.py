"""Rich results: objects in forms for programs and people, keyed by MIME type, as in Jupyter."""
import _ast
import base64
import builtins
import json
import sys

import _host
from _codebox import hooks

# First byte of a request that has a rich result.
_TAG = b"\x03"

# Methods of objects that return a form.
_METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
    "application/pdf": "_repr_pdf_",
}

# A method that no object has, unless it answers to every name.
_CANARY = "_ipython_canary_method_should_not_exist_"

# Longest program whose last expression is found: its syntax tree takes many times the memory of its text.
_LONGEST_TEXT = 256 << 10

# Name of the last expression's value in the program's namespace, until it has ended.
_VALUE = " value"

# True in a job whose results are collected.
_collects = False

# Figures of matplotlib that were shown and have not changed since, by their identity.
_shown = {}


def renew(job):
    """Starts a job."""
    global _collects
    _collects = job.get("results", False)
    _shown.clear()


def display(*objects, include=None, exclude=None, metadata=None, raw=False, **_ignored):
    """Shows objects: in the report of the run if it collects rich results, and else as text in the standard output.

    With `raw`, each object is a dictionary of forms by MIME type. `include` and `exclude` select forms.
    """
    for one in objects:
        data, details = (dict(one), {}) if raw else _forms(one)
        if not _collects:
            print(data.get("text/plain", ""))
            continue
        if include:
            data = {kind: form for kind, form in data.items() if kind in include}
        if exclude:
            data = {kind: form for kind, form in data.items() if kind not in exclude}
        _send("display", data, {**details, **(metadata or {})})
        if _is_figure(one):
            _shown[id(one)] = one
            # Drawing it has marked it as changed. Later changes mark it again.
            one.stale = False


def compile_program(source, name):
    """Compiles a program so that the value of its last expression is kept. `None` if it has none, or is not valid."""
    if not _collects or len(source) > _LONGEST_TEXT or source.rstrip().endswith(b";"):
        return None
    try:
        tree = compile(source, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body[-1]
        if type(last) is not _ast.Expr:
            return None
        at = {place: getattr(last, place) for place in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
        # A text alone is also the documentation of the module.
        names = [_VALUE, "__doc__"] if len(tree.body) == 1 and _is_text(last.value) else [_VALUE]
        tree.body[-1] = _ast.Assign([_ast.Name(name, _ast.Store(), **at) for name in names], last.value, **at)
        return compile(tree, name, "exec", dont_inherit=True)
    except BaseException:
        # The error of compiling the text itself is reported.
        return None


def _is_text(node):
    return type(node) is _ast.Constant and type(node.value) is str


def send_last(space):
    """Sends the value of a program's last expression, and the figures of matplotlib that are open and were not shown."""
    if not _collects:
        return
    try:
        value = space.pop(_VALUE, None)
        if value is not None:
            _send("value", *_forms(value))
        manager = sys.modules.get("matplotlib._pylab_helpers")
        for one in manager.Gcf.get_all_fig_managers() if manager else ():
            _show_figure(one.canvas.figure)
    except BaseException:
        # Methods of the program's objects may fail in any way.
        pass


def _show_figure(figure):
    if _collects and not (_shown.get(id(figure)) is figure and not figure.stale):
        display(figure)


def _forms(one):
    """Returns the forms of an object, and their metadata. A form that cannot be computed is left out."""
    data, metadata = {}, {}
    answers_all = isinstance(one, type) or hasattr(one, _CANARY)
    if not answers_all:
        bundle = _call(one, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(bundle, tuple):
            bundle, details = bundle
            metadata.update(details or {})
        data.update(bundle or {})
        for kind, method in _METHODS.items():
            form = None if kind in data else _call(one, method)
            if isinstance(form, tuple):
                form, metadata[kind] = form
            if form is not None:
                data[kind] = form
    if _is_figure(one) and "image/png" not in data:
        data.update(_image_of(one))
    if "text/plain" not in data:
        try:
            data["text/plain"] = repr(one)
        except Exception:
            data["text/plain"] = f"<{type(one).__name__}: repr() failed>"
    return data, metadata


def _call(one, name, **options):
    method = getattr(one, name, None)
    try:
        return method(**options) if callable(method) else None
    except Exception:
        return None


def _is_figure(one):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(one, figure.FigureBase)


def _image_of(figure):
    import io

    file = io.BytesIO()
    try:
        figure.savefig(file, format="png", bbox_inches="tight")
    except Exception:
        return {}
    return {"image/png": file.getvalue()}


def _send(role, data, metadata):
    """Sends a result to the host, which drops those above its limits."""
    texts, documents = {}, {}
    for kind, form in data.items():
        if isinstance(form, (bytes, bytearray, memoryview)):
            texts[_text(kind)] = base64.b64encode(form).decode()
        elif isinstance(form, str):
            texts[_text(kind)] = _text(form)
        else:
            documents[_text(kind)] = _document(form)
    try:
        details = {_text(kind): detail for kind, detail in metadata.items()}
        bundle = {"role": role, "data": texts, "json": documents, "metadata": _document(details)}
        _host.call(_TAG + json.dumps(bundle).encode())
    except Exception:
        # The result is above the limits of the host.
        pass


def _document(value):
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "null" if type(value) is not dict else "{}"


def _text(text):
    return str(text).encode("utf-8", "replace").decode()


def _patch_figure_managers(backends):
    # Without a window, a figure is shown as a result, and not with a warning.
    backends.FigureManagerBase.show = lambda self: _show_figure(self.canvas.figure)


def install():
    builtins.display = display
    hooks.after_import("matplotlib.backend_bases", _patch_figure_managers)
