"""Rich results: objects in forms for programs and people, keyed by MIME type, as in Jupyter."""
import _ast
import base64
import builtins
import json
import os as _os
import sys
import warnings
import weakref

import _host
from _codebox import hooks, host

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

# The forms whose methods return text or bytes.
_PLAIN = {kind for kind in _METHODS if kind != "application/json"}

# A method that no object has, unless it answers to every name.
_CANARY = "_ipython_canary_method_should_not_exist_"

# Longest program whose last expression is found: its syntax tree takes many times the memory of its text.
_LONGEST_TEXT = 256 << 10

# Longest form that is sent.
_LONGEST_FORM = 8 << 20

# Name of the last expression's value in the program's namespace, until it has ended.
_VALUE = " value"

# True in a job whose results are collected.
_collects = False

# Figures of matplotlib that were shown; a figure that has changed since is marked by matplotlib.
_shown = weakref.WeakSet()


def renew(job):
    """Starts a job."""
    global _collects
    _collects = job.get("results", False)


class DisplayHandle:
    """Shown object that can be replaced by another one."""

    def __init__(self, display_id=None):
        self.display_id = _os.urandom(16).hex() if display_id is None else display_id

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj, **options):
        display(obj, display_id=self.display_id, **options)

    def update(self, obj, **options):
        update_display(obj, display_id=self.display_id, **options)


def update_display(obj, *, display_id, **options):
    """Replaces what was shown under an identifier."""
    display(obj, display_id=display_id, **{**options, "update": True})


def clear_output(wait=False):
    """Removes what the cell has shown so far; with `wait`, when something else follows."""
    if _collects:
        _flush()
        _request({"role": "clear_before_next" if wait else "clear", "data": {}, "json": {}, "metadata": "{}"})


def display(
    *objects, include=None, exclude=None, metadata=None, raw=False, clear=False, display_id=None, update=False,
    transient=None, **_ignored
):
    """Shows objects: in the report of the run if it collects rich results, and else as text in the standard output.

    With `raw`, each object is a dictionary of forms by MIME type. `include` and `exclude` select forms. With a `display_id`, or True for
    a new one, returns a handle by which what is shown can be replaced; with `update`, replaces what was shown under it.
    """
    if isinstance(transient, dict):
        display_id = transient.get("display_id", display_id)
    handle = None
    if display_id is not None:
        handle = DisplayHandle(None if display_id is True else str(display_id))
    elif update:
        raise TypeError("display_id is required for update")
    if clear:
        clear_output(wait=True)
    for one in objects:
        if not _collects:
            print(one.get("text/plain", "") if raw else _text_of(one))
            continue
        data, details = (dict(one), {}) if raw else _forms(one)
        if include:
            data = {kind: form for kind, form in data.items() if kind in include}
        if exclude:
            data = {kind: form for kind, form in data.items() if kind not in exclude}
        if isinstance(metadata, dict):
            details = {**details, **metadata}
        _send("update" if update else "display", data, details, handle)
        _mark_shown(one)
    return handle


def compile_program(source, name, flags=0):
    """Compiles a program. If results are collected, the program keeps the value of its last expression."""
    if not _collects or len(source) > _LONGEST_TEXT:
        return compile(source, name, "exec", flags, dont_inherit=True)
    try:
        tree = compile(source, name, "exec", flags | _ast.PyCF_ONLY_AST, dont_inherit=True)
        _keep_value(tree, source)
        return compile(tree, name, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        if error.text is not None:
            raise
    except (MemoryError, RecursionError):
        pass
    # The error of a tree lacks the line of the program. Warnings have been given already. The error of the text is not raised
    # above, where it would have the other one as its context.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, name, "exec", flags, dont_inherit=True)


def _keep_value(tree, source):
    """Makes an assignment of the last statement, if it is an expression and no semicolon follows."""
    last = tree.body[-1] if tree.body else None
    if type(last) is not _ast.Expr:
        return
    lines = source.splitlines()
    line = lines[last.end_lineno - 1] if last.end_lineno <= len(lines) else b""
    if line[last.end_col_offset :].lstrip().startswith(b";"):
        return
    at = {place: getattr(last, place) for place in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    # A text alone is also the documentation of the module.
    is_text = type(last.value) is _ast.Constant and type(last.value.value) is str
    names = [_VALUE, "__doc__"] if is_text and len(tree.body) == 1 else [_VALUE]
    tree.body[-1] = _ast.Assign([_ast.Name(name, _ast.Store(), **at) for name in names], last.value, **at)


def send_last(space):
    """Sends the value of a program's last expression, and the figures of matplotlib that are open and were not shown. Returns
    the value."""
    if not _collects:
        return None
    value = space.pop(_VALUE, None)
    if value is not None:
        _attempt(_send_value, value)
    _attempt(_show_open_figures)
    return value


def close_figures():
    """Closes the figures of matplotlib, so that the next cell starts its own."""
    manager = sys.modules.get("matplotlib._pylab_helpers")
    if manager is not None:
        _attempt(manager.Gcf.destroy_all)


def _send_value(value):
    _send("value", *_forms(value))
    _mark_shown(value)


def _show_open_figures():
    manager = sys.modules.get("matplotlib._pylab_helpers")
    if manager is not None:
        for one in manager.Gcf.get_all_fig_managers():
            _attempt(_show_figure, one.canvas.figure)


def _attempt(function, *arguments):
    """Calls a function at the end of the program, where methods of the program's objects may fail in any way."""
    try:
        return function(*arguments)
    except BaseException:
        _send_empty()


def _show_figure(figure):
    if _collects and not (figure in _shown and not figure.stale):
        display(figure)


def _mark_shown(one):
    if _is_figure(one):
        _shown.add(one)
        # Drawing it has marked it as changed. Later changes mark it again.
        one.stale = False


def _forms(one):
    """Returns the forms of an object, and their metadata. A form that cannot be computed is left out."""
    data, metadata = {}, {}
    if not issubclass(type(one), type) and not callable(_attribute(one, _CANARY)):
        bundle, details = _pair(_call(one, "_repr_mimebundle_", include=None, exclude=None))
        if isinstance(bundle, dict):
            data.update(bundle)
            metadata.update(details)
        for kind, method in _METHODS.items():
            if kind not in data:
                form, details = _pair(_call(one, method))
                if form is not None:
                    data[kind] = form
                    metadata.update({kind: details} if details else {})
    if _is_figure(one) and "image/png" not in data:
        data.update(_image_of(one))
    if "text/plain" not in data:
        data["text/plain"] = _repr(one)
    return data, metadata


def _text_of(one):
    """Returns the text form of an object alone."""
    if not issubclass(type(one), type) and not callable(_attribute(one, _CANARY)):
        bundle, _ = _pair(_call(one, "_repr_mimebundle_", include=None, exclude=None))
        if isinstance(bundle, dict) and isinstance(bundle.get("text/plain"), str):
            return bundle["text/plain"]
    return _repr(one)


def _pair(form):
    """Splits the result of a method into form and metadata."""
    if type(form) is tuple and len(form) == 2 and isinstance(form[1], dict):
        return form
    return form, {}


def _repr(one):
    try:
        return repr(one)
    except MemoryError:
        raise
    except Exception:
        return f"<{type(one).__name__}: repr() failed>"


def _attribute(one, name):
    try:
        return getattr(one, name, None)
    except Exception:
        return None


def _call(one, name, **options):
    method = _attribute(one, name)
    try:
        return method(**options) if callable(method) else None
    except MemoryError:
        raise
    except Exception:
        return None


def _is_figure(one):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and issubclass(type(one), figure.FigureBase)


def _image_of(figure):
    import io

    file = io.BytesIO()
    try:
        figure.savefig(file, format="png", bbox_inches="tight")
    except MemoryError:
        raise
    except Exception:
        return {}
    return {"image/png": file.getvalue()}


def _send(role, data, metadata, handle=None):
    """Sends a result to the host, which leaves out what is above its limits, and counts it."""
    texts, documents, is_complete = {}, {}, True
    for kind, form in data.items():
        if isinstance(form, (bytes, bytearray, memoryview)):
            form = base64.b64encode(form).decode()
        if isinstance(form, str):
            if len(form) <= _LONGEST_FORM:
                texts[_text(kind)] = _text(form)
            else:
                is_complete = False
        elif form is not None and kind not in _PLAIN:
            document = _document(form)
            if document is not None:
                documents[_text(kind)] = document
    details = {_text(kind): detail for kind, detail in metadata.items()}
    bundle = {"role": role, "data": texts, "json": documents, "metadata": _document(details) or "{}"}
    if not is_complete:
        bundle["incomplete"] = True
    if handle is not None:
        bundle["display_id"] = _text(handle.display_id)
    _flush()
    _request(bundle)


def _flush():
    """Passes on what was written: the host receives output and results in their order."""
    for file in (sys.stdout, sys.stderr):
        _call(file, "flush")


def _request(bundle):
    try:
        _host.call(_TAG + json.dumps(bundle, ensure_ascii=False).encode())
    except MemoryError:
        raise
    except Exception:
        # The host refuses it.
        pass


def _send_empty():
    """Has the host count a result that could not be made."""
    try:
        _host.call(_TAG + b'{"role":"display","data":{},"json":{},"metadata":"{}"}')
    except BaseException:
        pass


def _document(value):
    try:
        return json.dumps(value, allow_nan=False, default=_number)
    except (TypeError, ValueError, RecursionError):
        return None


def _number(value):
    """Returns a number or an array of numpy as Python's own."""
    convert = _attribute(value, "tolist")
    if not callable(convert):
        raise TypeError
    return convert()


def _text(text):
    return str(text).encode("utf-8", "replace").decode()


def _patch_figure_managers(backends):
    # Without a window, a figure is shown as a result, and not with a warning.
    def show(self):
        if not _collects:
            host.notify("missing", what="figures")
        _show_figure(self.canvas.figure)

    backends.FigureManagerBase.show = show


def install():
    builtins.display = display
    hooks.after_import("matplotlib.backend_bases", _patch_figure_managers)
