"""Host tools: the module `codebox`, whose `tools` are functions of the host with JSON in and out."""
import importlib.machinery
import inspect
import json
import keyword
import opcode
import sys
import types

import _host
from _codebox import host

# First byte of a request that calls a tool.
_TAG = b"\x04"

_MODULE = "codebox"

_frame = sys._getframe

_GET_AWAITABLE = opcode.opmap["GET_AWAITABLE"]
_CACHE = opcode.opmap["CACHE"]

_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}

_Parameter = inspect.Parameter

# Longest call, with its name and the input as JSON text.
_LONGEST_REQUEST = 2 << 20

# The functions of the job, by the names of their tools; `None` until the host has named them.
_functions = None


def renew():
    """Starts a job."""
    global _functions
    _functions = None


class ToolError(Exception):
    """Failure of a host tool.

    `kind` is "denied", "invalid_input", "invalid_output", "budget", "failed", or a kind of the tool itself.
    """

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class _Result:
    """Result of a call that is awaited."""

    def __init__(self, value):
        self._value = value

    def __await__(self):
        return self._value
        yield


def _encode(value):
    # Numbers and arrays of numpy, and what else has this method, become Python's own.
    convert = getattr(value, "tolist", None) or getattr(value, "isoformat", None)
    if not callable(convert):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return convert()


def _call(name, arguments):
    try:
        text = json.dumps(arguments, default=_encode, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ToolError("invalid_input", "a text has a surrogate, which JSON cannot contain") from None
    except ValueError as error:
        raise ToolError("invalid_input", str(error)) from None
    request = _TAG + name.encode() + b"\0" + text
    if len(request) > _LONGEST_REQUEST:
        raise ToolError("invalid_input", f"the input has more than {_LONGEST_REQUEST} bytes")
    try:
        answer = _host.call(request)
    except Exception:
        raise ToolError("failed", f"the host has not answered the call of the tool {name}") from None
    if answer[:1] == b"\1":
        return json.loads(answer[1:])
    failure = json.loads(answer[1:])
    raise ToolError(failure["kind"], failure["message"])


def _is_awaited(frame):
    """Returns true if the next instruction of a frame awaits the result of its call."""
    code = frame.f_code.co_code
    at = frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _GET_AWAITABLE


def _annotation(schema):
    kind = schema.get("type") if isinstance(schema, dict) else None
    return _TYPES.get(kind, _Parameter.empty) if isinstance(kind, str) else _Parameter.empty


def _signature(schema, output):
    properties = schema.get("properties") or {}
    required = schema.get("required") or []
    names = [name for name in properties if name.isidentifier() and not keyword.iskeyword(name)]
    names.sort(key=lambda name: name not in required)
    parameters = [
        _Parameter(
            name,
            _Parameter.POSITIONAL_OR_KEYWORD,
            default=_Parameter.empty if name in required else None,
            annotation=_annotation(properties[name]),
        )
        for name in names
    ]
    if schema.get("additionalProperties") is not False or len(names) < len(properties):
        # A name that no property has.
        others = "others"
        while others in names:
            others += "_"
        parameters.append(_Parameter(others, _Parameter.VAR_KEYWORD))
    returns = _annotation(output) if output else inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=returns)


def _documentation(description):
    lines = [description["description"]]
    properties = description["input"].get("properties") or {}
    described = [(name, one["description"]) for name, one in properties.items() if isinstance(one, dict) and "description" in one]
    if described:
        lines += ["", *(f"{name}: {text}" for name, text in described)]
    return "\n".join(lines)


def _function(description):
    name = description["name"]
    try:
        signature = _signature(description["input"], description.get("output"))
    except Exception:
        # A schema may have any form.
        signature = inspect.Signature([_Parameter("arguments", _Parameter.VAR_KEYWORD)])
    rest = next((one.name for one in signature.parameters.values() if one.kind is _Parameter.VAR_KEYWORD), None)

    def arguments_of(args, kwargs):
        bound = signature.bind(*args, **kwargs).arguments
        others = bound.pop(rest, {}) if rest else {}
        return {**bound, **others}

    def tool(*args, **kwargs):
        value = _call(name, arguments_of(args, kwargs))
        return _Result(value) if _is_awaited(_frame(1)) else value

    async def coroutine(*args, **kwargs):
        return _call(name, arguments_of(args, kwargs))

    for function in (tool, coroutine):
        function.__name__ = _attribute(name)
        function.__qualname__ = f"tools.{function.__name__}"
        function.__module__ = _MODULE
        function.__doc__ = _documentation(description)
        function.__signature__ = signature
    tool.coroutine = coroutine
    tool.tool_name = name
    return tool


def _attribute(name):
    return name.replace("-", "_").replace(".", "_")


def _all():
    global _functions
    if _functions is None:
        try:
            descriptions = json.loads(host.call("tools"))
        except Exception:
            # The job has no tools.
            descriptions = []
        _functions = {description["name"]: _function(description) for description in descriptions}
    return _functions


class _Tools:
    """Functions of the host that this program may call."""

    __slots__ = ()

    def __getitem__(self, name):
        try:
            return _all()[name]
        except KeyError:
            raise KeyError(f"no host tool {name!r} is granted to this program") from None

    def __getattr__(self, name):
        functions = _all()
        named = [name] if name in functions else [known for known in functions if _attribute(known) == name]
        if len(named) == 1:
            return functions[named[0]]
        if named:
            raise AttributeError(f"{name} is the name of several host tools: use tools[{named[0]!r}], for instance", name=name, obj=self)
        raise AttributeError(f"no host tool {name!r} is granted to this program", name=name, obj=self)

    def __dir__(self):
        names = [_attribute(name) for name in _all()]
        return [name for name in names if names.count(name) == 1 or name in _all()]

    def __iter__(self):
        return iter(_all())

    def __len__(self):
        return len(_all())

    def __repr__(self):
        return f"<host tools: {', '.join(_all()) or 'none'}>"


class _Finder:
    """Finder of the module, after all files: a program may have a module of this name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, _Finder, origin=_MODULE) if name == _MODULE else None

    @staticmethod
    def create_module(spec):
        module = types.ModuleType(_MODULE, "Access of a program to its host.")
        module.tools = _Tools()
        module.ToolError = ToolError
        return module

    @staticmethod
    def exec_module(module):
        pass


ToolError.__module__ = _MODULE


def install():
    """Makes the module known."""
    sys.meta_path.append(_Finder)
