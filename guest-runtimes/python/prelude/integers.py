"""Python's part of making numpy's default integer 64 bits wide; the module's patch `numpy-int64` is the other part.

The width of a pointer, `numpy.intp`, stays 32 bits, since libraries are compiled for it. Counts that programs compute
with are widened here; positions are not. Each change is made when a module is loaded, for an image or by a program.
"""
import functools
import inspect

from _codebox import hooks, pointers, randomstate


def _type_names(module):
    """Maps the names of the default integer to its type, before other parts of numpy read them."""
    for names in (module.sctypeDict, module.allTypes):
        for name, wide in (("int_", "int64"), ("uint", "uint64"), ("int", "int64")):
            if name in names:
                names[name] = names[wide]


def _wide_bincount(multiarray):
    """Replaces the compiled `bincount` by a function that calls it and widens its counts."""
    umath, overrides = multiarray._multiarray_umath, multiarray.overrides
    shown, count = multiarray.bincount, umath.bincount
    pointer, wide = umath.dtype("p"), umath.dtype("q")

    def dispatcher(x, /, weights=None, minlength=None):
        return (x, weights)

    def bincount(x, /, weights=None, minlength=0):
        counts = count(x, weights, minlength)
        return counts.astype(wide) if counts.dtype == pointer else counts

    functools.update_wrapper(bincount, shown, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    del bincount.__wrapped__
    signature = inspect.signature(shown)
    multiarray.bincount = overrides.array_function_dispatch(dispatcher, module="numpy", verify=False)(bincount)
    multiarray.bincount.__signature__ = signature


def _wide_count_nonzero(multiarray):
    """Replaces the compiled part of `count_nonzero`, which counts without an axis."""
    count, wide = multiarray.count_nonzero, multiarray._multiarray_umath.dtype("q").type

    def count_nonzero(a):
        return wide(count(a))

    multiarray.count_nonzero = count_nonzero


def _multiarray(module):
    _wide_bincount(module)
    _wide_count_nonzero(module)


def _int64_for_intp(name):
    """Returns a function that makes the function `name` of a module use `int64` instead of `intp`."""

    def widen(module):
        _name_int64(getattr(module, name).__wrapped__)

    return widen


def _name_int64(function):
    """Makes a function use `int64` instead of the attribute `intp` and the string `"long"`."""
    code = function.__code__
    names = tuple("int64" if known == "intp" else known for known in code.co_names)
    consts = tuple("int64" if known == "long" else known for known in code.co_consts)
    function.__code__ = code.replace(co_names=names, co_consts=consts)


def install():
    """Registers the changes; runs before an image's modules are imported."""
    hooks.install()
    hooks.after_import("numpy._core._type_aliases", _type_names)
    hooks.after_import("numpy._core.multiarray", _multiarray)
    hooks.after_import("numpy._core.numeric", _int64_for_intp("count_nonzero"))
    hooks.after_import("numpy.lib._histograms_impl", _int64_for_intp("histogram"))
    hooks.after_import("pandas.core.frame", lambda module: _name_int64(module.DataFrame.memory_usage))
    hooks.after_import("scipy.special._basic", lambda module: _name_int64(module._factorialx_array_exact))
    randomstate.install()
    pointers.install()
